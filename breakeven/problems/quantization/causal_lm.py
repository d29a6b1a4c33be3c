"""Language models of transformers: their linear layers, what these see, and the model as a problem's architecture."""

import contextlib
import dataclasses
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping

import torch

from breakeven.contract import BadInput


@dataclasses.dataclass(frozen=True)
class CausalLM:
    """A causal language model of transformers by its configuration, as JSON; it computes by transformers' own code.

    A problem's parameters are the model's, in their order, those that are tied once. `CausalLM.of` reads them off a model.
    transformers computes norms and angles in float32 whatever the parameters are.
    """

    configuration: str

    at_once = 1
    """Sequences that are recorded at a time: what an expert sees of each is its own."""

    @classmethod
    def of(cls, model: torch.nn.Module) -> tuple["CausalLM", torch.Tensor]:
        """The architecture of a model and its parameters, (P,) float32.

        Raises:
            BadInput: for a model that is more than its configuration and its parameters, such as one with adapters.
        """
        made = cls(json.dumps(model.config.to_dict(), sort_keys=True, default=str))
        parts = {name: part.detach().float() for name, part in model.named_parameters()}
        if made.shapes() != {name: tuple(part.shape) for name, part in parts.items()} or not made._has_buffers_of(
            model
        ):
            raise BadInput(
                f"a {type(model).__name__} is more than its configuration says (adapters, a quantized model?): merge them"
            )
        return made, torch.cat([part.flatten() for part in parts.values()])

    def _has_buffers_of(self, model: torch.nn.Module) -> bool:
        made, given = (dict(one.named_buffers()) for one in (_skeleton(self.configuration), model))
        return made.keys() == given.keys() and all(
            torch.equal(made[name], part.to(made[name])) for name, part in given.items()
        )

    @property
    def vocabulary(self) -> int:
        return _skeleton(self.configuration).get_input_embeddings().num_embeddings

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Of every parameter, in their order."""
        return {name: tuple(part.shape) for name, part in _skeleton(self.configuration).named_parameters()}

    def linears(self) -> dict[str, tuple[str, bool]]:
        """The parameter of each layer to be quantized, and whether it lies there transposed, as GPT-2's do."""
        layers = linear_layers(_skeleton(self.configuration)).items()
        return {name: (f"{name}.weight", not isinstance(layer, torch.nn.Linear)) for name, layer in layers}

    def logits(
        self, parts: Mapping[str, torch.Tensor], tokens: torch.Tensor, observe: Callable | None = None
    ) -> torch.Tensor:
        """(s, t, vocabulary) of (s, t) tokens; see `ModelProblem.logits`."""
        model = _skeleton(self.configuration)
        given = {"input_ids": tokens, "use_cache": False}
        with observed(linear_layers(model) if observe else {}, observe):
            return torch.func.functional_call(model, dict(parts), (), given).logits


@functools.lru_cache(maxsize=4)
def _skeleton(configuration: str) -> torch.nn.Module:
    """The model in evaluation mode, its buffers filled, its parameters without memory."""
    transformers = import_transformers()
    facts = json.loads(configuration)
    try:
        config = transformers.AutoConfig.for_model(**facts)
        with torch.random.fork_rng(devices=[]):  # it is filled at random, and then emptied
            model = transformers.AutoModelForCausalLM.from_config(
                config, dtype=torch.float32, experts_implementation="eager"
            )  # the fused kernels of experts refuse float64
    except (KeyError, TypeError, ValueError) as error:
        raise BadInput(
            f"transformers cannot make a {facts.get('model_type')} of its configuration: {error}; models with code of their own "
            "are not supported"
        ) from error
    for part in model.parameters():
        part.requires_grad_(False).untyped_storage().resize_(0)
    return model.eval()


@contextlib.contextmanager
def observed(layers: Mapping[str, torch.nn.Module], observe: Callable) -> Iterator[None]:
    """Meanwhile ``observe`` hears of each call of a layer: its name, its input and its output."""
    hooks = [
        layer.register_forward_hook(lambda _, arguments, output, name=name: observe(name, arguments[0], output))
        for name, layer in layers.items()
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


def linear_layers(model: torch.nn.Module, skip: Iterable[str] = ()) -> dict[str, torch.nn.Module]:
    """What is quantized, by name: all layers but the output head, those that share their weight, and those to be skipped."""
    skip = set(skip)
    found = {name: one for name, one in model.named_modules() if _is_linear(one)}
    if unknown := sorted(skip - set(found)):
        raise BadInput(
            f"there is no linear layer called {', '.join(unknown)}; there are: {', '.join(list(found)[:9])}, ..."
        )
    head = model.get_output_embeddings() if hasattr(model, "get_output_embeddings") else None
    shared = {name for names in shared_parameters(model) for name in names}
    layers = {
        name: one
        for name, one in found.items()
        if one is not head and f"{name}.weight" not in shared and name not in skip
    }
    if not layers:
        raise BadInput("the model has no linear layer to be quantized")
    return layers


def weight_of(layer: torch.nn.Module) -> torch.Tensor:
    """(outputs, inputs) float32."""
    weight = layer.weight.detach().float()
    return weight.contiguous() if isinstance(layer, torch.nn.Linear) else weight.T.contiguous()


def _is_linear(layer: torch.nn.Module) -> bool:
    # By its name: GPT-2's class is transformers', which need not be there.
    return isinstance(layer, torch.nn.Linear) or type(layer).__name__ == "Conv1D"


def shared_parameters(model: torch.nn.Module) -> list[list[str]]:
    """Names of parameters that are one."""
    names = {}
    for name, parameter in model.named_parameters(remove_duplicate=False):
        names.setdefault(id(parameter), []).append(name)
    return [some for some in names.values() if len(some) > 1]


def import_transformers():
    try:
        import transformers
    except ImportError:
        raise BadInput("transformers is not installed: pip install 'breakeven[models]'") from None
    return transformers


def loaded_model(model, tokenizer) -> tuple[torch.nn.Module, object]:
    if isinstance(model, torch.nn.Module):
        return model, tokenizer
    transformers = import_transformers()
    try:
        loaded = transformers.AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
        tokenizer = tokenizer or transformers.AutoTokenizer.from_pretrained(model)
    except (OSError, ValueError) as error:
        raise BadInput(
            f"{model}: no causal language model can be loaded from there: {str(error).splitlines()[0]}"
        ) from error
    return loaded, tokenizer
