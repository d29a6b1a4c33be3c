"""The linear layers of a causal language model of transformers, and the model itself by its id or folder."""

from collections.abc import Iterable

import torch

from breakeven.contract import BadInput


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
