"""Lets torchvision import beside a CPU build of torch.

torchvision describes the shapes of two of its compiled operators when it is imported, which fails when its compiled
half (built for CUDA) did not load. Declaring the operators just before is enough; nothing here calls them.
"""

import importlib.abc
import sys

_SIGNATURE = "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor"


class _BeforeTorchvision(importlib.abc.MetaPathFinder):
    """Finds nothing; it only notices that torchvision is wanted, once."""

    def find_spec(self, fullname, *_where):
        if fullname == "torchvision" and self in sys.meta_path:
            sys.meta_path.remove(self)
            from torch.library import define

            define("torchvision::nms", _SIGNATURE)
            define("torchvision::qnms", _SIGNATURE)


sys.meta_path.insert(0, _BeforeTorchvision())
