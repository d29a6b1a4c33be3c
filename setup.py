"""Packages: the content folders stand at the root of the repository and install under one import name.

So none of them shadows a library of the same name (there is a well-known `datasets`), and a new track needs no entry here.
"""

import setuptools

CONTENT = ("benchmarks", "methods", "baselines", "datasets")

setuptools.setup(
    package_dir={"breakeven": "breakeven"} | {f"breakeven.{folder}": folder for folder in CONTENT},
    packages=[
        f"breakeven.{package}" if package.split(".")[0] in CONTENT else package
        for package in setuptools.find_packages(include=["breakeven*", *(f"{folder}*" for folder in CONTENT)])
    ],
)
