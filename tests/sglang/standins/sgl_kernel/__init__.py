"""Stand-ins for the CPU kernels that SGLang imports by name; its own CPU kernel package is on no public index.

With ``SGLANG_USE_CPU_ENGINE=1`` SGLang takes bookkeeping of the token pool, the drafting tree and the attention of its
``intel_amx`` backend from here. Everything else runs SGLang's own torch code, since ``convert_weight_packed`` is absent
and SGLang then believes that the CPU has no AMX. Plain torch, no speed, results equal to the kernels' contracts.
"""

import torch

from sgl_kernel.attention import decode_attention_cpu, extend_attention_cpu
from sgl_kernel.pool import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    build_draft_decode_metadata_cpu,
    copy_all_layer_kv_cache_cpu,
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
    rotate_input_ids_cpu,
)
from sgl_kernel.tree import build_tree_kernel_efficient_cpu, verify_tree_greedy_cpu

__version__ = "0.0.0"
__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "copy_all_layer_kv_cache_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "rotate_input_ids_cpu",
    "verify_tree_greedy_cpu",
]

torch.ops.sgl_kernel.extend_attention_cpu = extend_attention_cpu
torch.ops.sgl_kernel.decode_attention_cpu = decode_attention_cpu
