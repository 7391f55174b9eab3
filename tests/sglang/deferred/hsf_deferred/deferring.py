"""Makes SGLang decide as it does on GPUs that fuse the all-reduce after an MLP with the next layer's norm.

Only the decision is changed, which is always no on a CPU. What follows from it is SGLang's own code: the layer marks
its output as not reduced, the next layer's communicator reduces it, and whoever taps the stream in between gets a
rank's share of a sum.
"""

from sglang.srt.layers.communicator import LayerCommunicator

LayerCommunicator.should_fuse_mlp_allreduce_with_next_layer = lambda self, _batch: (
    not self.is_last_layer and self._context.tp_size > 1
)

EntryClass = []
