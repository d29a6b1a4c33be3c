"""Linear programs of Netlib (Gay, COAL Newsletter 13, 1985): small, old, and still not easy for a first-order method."""

from breakeven.contract import dataset
from breakeven.datasets.lp._files import Collection
from breakeven.datasets.lp._models import read_model
from breakeven.datasets.lp._questions import ask
from breakeven.problems.lp import LPBatch

HOME = "https://github.com/coin-or-tools/Data-Netlib"

CHECKSUMS = {
    "25fv47": "e0da0d47ae56bef34f11ac03563027da57dd4ab792d978c0dc8e27a16117f627",
    "adlittle": "db211f7bf735518a246a2a0e385ec51abc09cd601da7ae50d6c3fe083cb6f94b",
    "afiro": "04992b87e57e57c1c417c96b846833bfa12e055eeaa623f043c45fc773b5be41",
    "agg": "d7844795d0c799f5cdc1416c8d242f5e8f351f5a3271f42a2d428f170abf1f03",
    "bandm": "696daa77a79a0715c2fad877285e49bd7fcd7f5513f3cb83fbe0be916b6d8c81",
    "blend": "38e1d84a38f1e0adaa16d3dd0abe758f6cea13a21f33681aa92742b693260aef",
    "boeing2": "e12e729b8c09bf6e6934af40b728e460d4eb360c42419b791b68fb2271ddd61a",
    "brandy": "56fa020b84a0a106b7883b7da006c2852449598898c41ec8dd2575151d0e0917",
    "d2q06c": "fb1516a10aba6a4101cea6cec90c1da775ac60d2d2cd96e902bbe21a430790c9",
    "degen2": "755cf6ca5f3a8ed1b8b68372e8d2d3b5efee784ee69b1dada923c6ff04ee0edb",
    "degen3": "08d600688c524fea548e946af5551ef8c359c7a7e71b8841acc839b00eefadeb",
    "dfl001": "85d47c5f8a5fc53772eabac1805b7a1af72431cad9e14d26d673043980952730",
    "e226": "ddf56486daea52c8592b520aeb83d329223a1b45a3e5a269bd663ef9195bd8d8",
    "fit1d": "59cee4fedd040a05c05d8410474ee014f42ef910e083689202be708491fe8717",
    "fit2d": "1c16c328c0358ab175596bdd6b9a2c5d1cb4bb53b099d5d1f2a208a889c7bafc",
    "fit2p": "0f44de8ea974ed4cc04fb60ccd2707c2f887dc65f8b6b9bd1e9f01bb59dd4a4f",
    "forplan": "65ec816c0b3c58ec4d61574df130a3ce464abb42f3d49de21710a787bf3cfdc7",
    "greenbea": "cb701e3ba5153e385b8cb6426e34b5d23bad4b1b9c9a037802e351c24b0f653d",
    "israel": "96564e1fddcbb6e3d46447fceb54b9d18260b95e95075c3a19f5812f9bf5ceeb",
    "kb2": "f0eb647d1d9aac84f49d88662b6b02c6cecc04496e5435be733eced36d7f48f2",
    "maros-r7": "e97f59ab32a8280526c26c210aacabd6e0c05300e67a0d4afd00b95d245f8db7",
    "pilot4": "67e872aae722a493f5c2c8f88e3d70d093eea116093874ea43852c864a687cba",
    "pilot87": "0ecfcc173d82c8a0252f58a99b2a529d8ad0155ee9212b8451cc25c0e387caa4",
    "recipe": "277b34645cc89526db4a3365fa781ce28aa9768a65c4f301416a8a05c934af61",
    "sc105": "062d034400be956757316a9bde8e6de3d221a88fb5dc502def743f1883e23ec3",
    "sc50a": "36bfce2f419555712bf1b9a8477541199073c7654475d933475cea6db0abe2f2",
    "sc50b": "bfc47ffcf8f037552130a75142a203dc768d82d15c3b7b9f718c444ffa472f15",
    "scagr7": "2170c16fd0cc04a823172c1564e89593e75aac5225e2c2f893a6837ba0b26085",
    "scsd1": "8c4aac4987a81ef66715b5cb2debdb1993afe6cb5e2a29f32556a03802bf55f5",
    "scsd8": "2090a22840fe2c75730cd76336702ece7c27a739d58740926b67c4b2e57b8e5c",
    "sctap1": "2b1ab5950d3e37fd21327892e2bc830c5f0d8d3fc1f687c0f57a5cdefd9caa21",
    "share2b": "2816c0a71096acc08fd88f65c960366856802c074601e5fa544f9c3eab640c96",
    "ship08l": "58b6142628facaa1b056f32f9f47167097db66825f0c6b42c6f65e4da1b5da07",
    "sierra": "dbabb4bb56b9de7efbca7df842922c7c1ef620bcbee2aeb28f4bf3c5a3868cc9",
    "stocfor1": "98e1cb3940233e044e3d0e50869539087acdf8f0862916f777e553afc705ba90",
    "stocfor2": "d54988bc39e9c48d13c8a3248913e9b6b77c2f8e9b9f4c3e4c76b060f6096b50",
    "vtpbase": "7c34b37d7714796bc0fe30d920f3ecf9866c018a018ee0349ceb85350581dc68",
    "woodw": "01450b5407d3bb282595e2874e78c26dd7cdde87d70d663065e58bd3e6c288b0",
}

COLLECTION = Collection(
    name="Netlib",
    home=HOME,
    url="https://raw.githubusercontent.com/coin-or-tools/Data-Netlib/master/{instance}.mps.gz",
    folder="netlib",
    checksums=CHECKSUMS,
)


@dataset(title="Netlib", source=HOME, real=True, packages=("highspy",))
def netlib(*, instance: str, batch: int = 1, question: str = "single", seed: int = 0) -> LPBatch:
    """A question about an LP of Netlib, read from a file on this machine, or downloaded once (`Collection.find`).

    Args:
        instance: the name, such as ``"afiro"``.
        batch: children.
        question: what is asked of it: ``single``, ``tightening`` or ``scenarios`` (`ask`); there are no integers to branch on.
        seed: of the children.
    """
    return ask(question, read_model(COLLECTION.find(instance)), batch=batch, seed=seed)
