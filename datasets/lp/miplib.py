"""Instances of MIPLIB 3 (Bixby, Ceria, McZeal and Savelsbergh, Optima 58, 1998), or of any other folder of models."""

from breakeven.contract import dataset
from breakeven.datasets.lp._files import Collection
from breakeven.datasets.lp._models import read_model
from breakeven.datasets.lp._questions import ask
from breakeven.problems.lp import LPBatch

HOME = "https://github.com/coin-or-tools/Data-miplib3"

CHECKSUMS = {
    "10teams": "d061e23a021877b9779558e4b9996f6c229721c8041b5a408ddf7d7fb7c1902a",
    "air03": "2346f74b150a39aef68378c9e576346ecfe9e175fa5f7538977e9d8224c393a1",
    "air04": "364f229be10401a476c06c3b42ff91aff3996d4c8c55c5ba2c6d9f8d0b02ad01",
    "air05": "1ca185a7d8d6eaa48d959a8b4c00e3b0d6faf0f9e4ec4411c3228224dca074e3",
    "arki001": "597eb014a6f34d870f3b2060eb74f16cb7bb0289b2971bc848fcb3809ac42ca7",
    "bell3a": "1ada0bcc162defc9d8f17769920d3531d6e9f8c69f466e3eb165939ae845fd43",
    "bell5": "d4846d7ea889d482e32842832e599ca6d0dc04fd8ea3ea58f49a52b436859dd5",
    "cap6000": "b9fb72f2d0354c1609457f4e1e4c69c83879a1601dfba4c6894c0b6d5357fddc",
    "dano3mip": "0a35b68b11aedd4ed9076aef4564a8661e6ebae81a53e56a480c212badbb7c9e",
    "danoint": "09ed14e0f1b2db4cf0c8a738b17384fa64a0bf73c6ff4667d276356eec2b8e2b",
    "dcmulti": "a9552af8f0fd228851352ba60b62a64639f8ffd4a01f217afc095eaac4c29a75",
    "egout": "351ed046eb56e07662b3c2dba35800f5d2cee3fac18c1bd7fbc8dea4a0dcd8db",
    "enigma": "bbc4a1a6e9ab30d2615b5e0391f0df1782d29b0a125eb38ef852e8dda6ebc323",
    "fast0507": "5d27d3474d016e827c360a5c621a802edd5d5c8c163b7f782bb5ecf3083d0275",
    "fiber": "67c87e4a5b19f8a8903b37286e9f38ad206cb8daabfd0399bea41acd93ed04bf",
    "fixnet6": "e090a2103b8f4906095fd9931d8b608f41c35421f1ea267711e0297aeeb3af08",
    "flugpl": "ed4b1fcb07d26b513027721d61344c2c4371cb506bf66098df328047c183b0c0",
    "gesa2": "fe43df9f95b79fbceae3b4c5f8a152e9498facf5adf750f6255fe4c693af02c3",
    "gesa3": "d9eb9e9af06d1d8b4be0e16d927c782035a333517d10e67810945c75f6c61a16",
    "gt2": "7dfdce934f95ced966a14e9eaad34023bbe966dc295589a33ac0676d810707dd",
    "khb05250": "951e36f03a1562d4adae3223db2026c3bba4ccd7cf38d59482298e9e7e5d0fc2",
    "l152lav": "c797f70b0b84f34653686c9914a7842872a9c39330a9ec127d1db6b367241034",
    "lseu": "00416576ed4adac15b62b1982cb7be9d7dcb2d6505067dd8396183ff1eac3dab",
    "mas76": "329d1d2d6b4bbd06a212ccc6f9dd8985036b021c882464f484ba4bcfb1fd2270",
    "misc03": "caba4f42b1827e41cdd62c6548435cc786b9f9092f984f170cab8df939a84acb",
    "misc07": "1535ed1b59d2f91e17fe340fbebb6dd0b66bb6a837356e4ce9e5acb58be3be1d",
    "mkc": "ca676a5cad5b01d946038e2063a3b79c838b333fa4dcaa6ef3447cc7f9e17873",
    "mod008": "5a08fe11b87bfe51f55e5537f5e8d0ad0e5fecbc57710a5b58c48a5f10a8e993",
    "mod010": "62c3f77a72a8077694aef82644e3d601f435d1bb33acd1984fcd7238c8cf3b4b",
    "mod011": "a5954bbaefc46a6398d9979da6b6900d1d9bf9080e7d2108425c81279f217535",
    "modglob": "bca45a46c097cb66d85d8986e33c901c33c5454aa45bf6a66ed6c9559f881b4c",
    "p0033": "8ccff819023237c79ef32e238a5da9348725ce9a4425d48888baf3a0b3b42628",
    "p0201": "8352d7f121289185f443fdc67080fa9de01e5b9bf11b0bf41087fba4277c07a4",
    "p0548": "81fa3fb1e071cac0b72649c38196c18bca7ff6d7f2f6639776dcb0daf6bcab15",
    "p2756": "0ed6b86a8baa033c9a3e46c66eee74dd670585eb3d096ea590c3646f8b4b47c8",
    "pk1": "f0a362be150a52baa650130b752e44ed0921d4c8a98af74c4a1f7a9bb3c65983",
    "qiu": "98277ce24052dbb5a24a8eb0205ef8c479cb4e03458cc51eda03676273de262a",
    "rout": "d8f75b5adec2c8547c14ddcedb1812a5105da019062df0fde596d96b0f3e9690",
    "set1ch": "d001258f10bf0970215fe857b4bd0a425a736cc018ce763a4ec533f924bf2867",
    "seymour": "48bcd17a805be73c68e0af115d7fcbc520a5e52da2fb81dde51beaa4d396aa69",
    "stein27": "b8889994eda0853d71bad6ba9bf45755d4e59f33a13a3f43008e1ba681738c5b",
    "swath": "eb8d979a2e89d9dc7a1d5dea23954f56dab60eb2828127aa8266f391abc1e45d",
    "vpm1": "838f2b08516a97db20825488d6f10de998c3d4b9853336c75ec5f56d67366885",
    "vpm2": "55ca0b6caff042c42c5269045177351db828f066a94876e5885f626d02d5ffbc",
}

COLLECTION = Collection(
    name="MIPLIB 3",
    home=HOME,
    url="https://raw.githubusercontent.com/coin-or-tools/Data-miplib3/master/{instance}.gz",
    folder="miplib3",
    checksums=CHECKSUMS,
)


@dataset(title="MIPLIB 3", source=HOME, real=True, packages=("highspy",))
def miplib(*, instance: str, batch: int = 64, question: str = "branching", seed: int = 0) -> LPBatch:
    """A question about a MIPLIB instance, read from a file on this machine, or downloaded once (`Collection.find`).

    Args:
        instance: the name, such as ``"10teams"``.
        batch: children; of ``branching`` up to twice the number of fractional variables at the root.
        question: what is asked of it: ``branching``, ``tightening``, ``scenarios`` or ``single`` (`ask`).
        seed: of the children.
    """
    return ask(question, read_model(COLLECTION.find(instance)), batch=batch, seed=seed)
