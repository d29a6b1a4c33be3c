"""Sparse matrices as torch holds them."""

import warnings

import numpy as np
import scipy.sparse
import torch


def sparse_matrix(matrix) -> torch.Tensor:
    """A torch CSR tensor of anything that SciPy can make a CSR array of: sorted, without duplicates or stored zeros."""
    csr = scipy.sparse.csr_array(matrix, copy=True)
    csr.sum_duplicates()
    csr.eliminate_zeros()
    if not np.issubdtype(csr.dtype, np.floating):
        csr = csr.astype(np.float64)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Sparse CSR tensor support is in beta state")
        return torch.sparse_csr_tensor(
            torch.from_numpy(csr.indptr.astype(np.int64)),
            torch.from_numpy(csr.indices.astype(np.int64)),
            torch.from_numpy(csr.data),
            size=csr.shape,
            check_invariants=False,
        )
