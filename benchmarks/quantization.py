"""The contests of quantization, and the sizes that they sweep."""

from breakeven.contract import Contest, Floor, Metric
from breakeven.sweep import Grid, Sweep

HELD_OUT_LOSS = Metric(
    "held_out_loss",
    about="what the error costs the network on held-out data, relative to an error of the size of the weights without direction",
)
SEEDS = tuple(range(10, 20))  # settings of the methods were chosen while looking at seeds 0 to 2
KL = Metric(
    "kl",
    unit="nats",
    about="divergence of the next token's distribution from the original model's, in the mean over tokens; "
    "those of the built-in model are bytes",
)


class LayerLoss(Sweep):
    """One layer at a number of bits, by what is lost."""

    contest = Contest(
        track="quantization",
        name="layer_loss",
        question="Who loses least on held-out data when a layer is rounded to so many bits?",
        problem="LayerProblem",
        axes=("bits", "gradients", "columns"),
        rank_by=HELD_OUT_LOSS,
        subject_to={"excess_bits": 0.0},
        baseline="gptq",
    )
    quick = (
        Grid(
            "synthetic_layer",
            spectrum=("power_law",),
            output_spectrum=("isotropic", "power_law"),
            bits=(3,),
            columns=(256,),
            seeds=SEEDS[:3],
        ),
        Grid("trained_lm", layer=("block1.up",), bits=(2,), seeds=SEEDS[:1]),
    )
    full = (
        Grid(
            "synthetic_layer",
            spectrum=("isotropic", "power_law", "spiked", "low_rank"),
            output_spectrum=("isotropic", "power_law"),
            bits=(2, 3, 4),
            columns=(128, 256, 512, 1024),
            seeds=SEEDS,
        ),
        Grid(
            "synthetic_layer",
            output_spectrum=("isotropic", "power_law"),
            gradients=(16, 32, 64, 128, 256, 512, 1024, 4096),
            columns=(256,),
            seeds=SEEDS,
        ),
        Grid(
            "trained_lm",
            layer=tuple(f"block{block}.{part}" for block in (0, 1, 3) for part in ("q", "v", "o", "up", "down")),
            bits=(2, 3, 4),
            seeds=SEEDS[:3],
        ),
        Grid("trained_lm", layer=("block1.down",), bits=(3,), sequences=(32, 64, 128, 256, 512), seeds=SEEDS[:3]),
    )


class LayerTime(Sweep):
    """One layer by how long that takes, all factors given."""

    contest = Contest(
        track="quantization",
        name="layer_time",
        question="How fast is a layer rounded with a held-out loss no more than a tenth above that of a plain GPTQ?",
        problem="LayerProblem",
        axes=("rows", "columns"),
        subject_to={"excess_loss": 0.1, "excess_bits": 0.0},
        baseline="gptq",
        floor=Floor(
            "the Hessian is factored, and each column's rounding errors are carried on to the later ones, in float32 as by GPTQ",
            operations=lambda of: of["columns"] ** 3 / 3 + of["rows"] * of["columns"] ** 2,
        ),
    )
    quick = (Grid("synthetic_layer", rows=(512,), columns=(256, 512, 1024)),)
    full = (Grid("synthetic_layer", rows=(512, 1024, 2048), columns=(256, 512, 1024, 2048)),)


class ModelKL(Sweep):
    """A whole language model, small but trained, on text that it has not seen."""

    contest = Contest(
        track="quantization",
        name="model_kl",
        question="Whose quantized language model stays closest to the original on held-out text?",
        problem="ModelProblem",
        axes=("bits", "tokens"),
        rank_by=KL,
        subject_to={"excess_bits": 0.0},
        baseline="gptq",
    )
    quick = (Grid("trained_model", bits=(2,), sequences=(128,), seeds=SEEDS[:2]),)
    full = (
        Grid("trained_model", training=("own",), bits=(2, 3), seeds=SEEDS[:3]),
        Grid("trained_model", bits=(2, 4), sequences=(32, 128, 512), seeds=SEEDS[:3]),
    )


class Gemv(Sweep):
    """The product of a quantized matrix with a few vectors, which is most of what a model does for a token."""

    contest = Contest(
        track="quantization",
        name="gemv",
        question="How fast is a quantized matrix multiplied with few vectors, to within a hundredth?",
        problem="ProductProblem",
        axes=("batch", "rows", "columns"),
        subject_to={"relative_error": 0.01},
        baseline="torch_float32",
        floor=Floor("every code is read once", bytes=lambda of: of["rows"] * of["columns"] * of["bits"] / 8),
    )
    quick = (
        Grid("quantized_matrix", rows=(1024,), columns=(256, 1024, 4096), bits=(4,)),
        Grid("quantized_matrix", rows=(2048,), columns=(2048,), bits=(2, 3, 8)),
    )
    full = (
        Grid("quantized_matrix", rows=(256, 1024, 4096), columns=(256, 1024, 4096), bits=(2, 3, 4, 8)),
        Grid("quantized_matrix", rows=(4096,), columns=(4096,), bits=(4,), batch=(2, 4, 8, 16, 32, 64)),
        Grid("quantized_matrix", rows=(11008,), columns=(4096,), bits=(4,)),
    )
