"""Attention of SGLang's ``intel_amx`` backend, one request at a time, in fp32."""

import torch


def _attend(query, keys, values, mask, scale, cap, sinks=None):
    """[t, q heads, d], [s, kv heads, d], [s, kv heads, e], [t, s] bool -> [t, q heads, e]."""
    groups = query.shape[1] // keys.shape[1]
    keys, values = (x.float().repeat_interleave(groups, dim=1) for x in (keys, values))
    scores = torch.einsum("thd,shd->hts", query.float(), keys) * scale
    if cap > 0:
        scores = cap * torch.tanh(scores / cap)
    scores = scores.masked_fill(~mask, float("-inf"))
    if sinks is None:
        weights = scores.softmax(-1)
    else:  # one more logit for each head, which takes weight and gives nothing
        extra = sinks.float().view(-1, 1, 1).expand(-1, scores.shape[1], 1)
        weights = torch.cat([scores, extra], -1).softmax(-1)[..., :-1]
    return torch.einsum("hts,she->the", weights, values)


def _drop_cache_scales(args, at):
    """Since 0.5.20 two scales of an fp8 cache come in between; older versions go on with a tensor."""
    return list(args) if torch.is_tensor(args[at]) else [*args[:at], *args[at + 2 :]]


def extend_attention_cpu(q, k, v, o, *rest):
    """Attention of the newest tokens of each request, causal or by a tree's mask; the cache holds them already."""
    rest = _drop_cache_scales(rest, 2)
    k_cache, v_cache, req_to_token, requests, seq_lens, new_lens, starts, _longest, scale, cap = rest[:10]
    _cross, _window, _encoder, sinks, tree = (*rest[10:15], None, None, None, None, None)[:5]
    mask_at = 0
    for line, total, new, start in zip(*(x.tolist() for x in (requests, seq_lens, new_lens, starts)), strict=True):
        rows = slice(start, start + new)
        mask = torch.ones(new, total, dtype=torch.bool).tril(total - new)
        if tree is not None:
            mask[:, total - new :] = tree[mask_at : mask_at + new * new].view(new, new).bool()
            mask_at += new * new
        cached = req_to_token[line, :total].long()
        keys, values = k_cache[cached], v_cache[cached]
        if keys.shape[-1] != q.shape[-1]:  # latent attention in its wide form: the cache holds latents, k and v do not
            keys = k[rows].view(new, -1, q.shape[-1])
            values = v[rows].view(new, -1, o[rows].numel() // (new * q.shape[1]))
        o[rows] = _attend(q[rows], keys, values, mask, scale, cap, sinks).reshape(o[rows].shape).to(o.dtype)


def decode_attention_cpu(q, k_cache, v_cache, *rest):
    """Store the newest key and value, then attend with one query for each request."""
    o, key, value, place, _logits, req_to_token, requests, seq_lens, scale, cap = _drop_cache_scales(rest, 0)[:10]
    if key is not None:
        for cache, new in ((k_cache, key), (v_cache, value)):
            cache[place] = new.view(-1, *cache.shape[1:]).to(cache.dtype)
    for index, (line, total) in enumerate(zip(requests.tolist(), seq_lens.tolist(), strict=True)):
        cached = req_to_token[line, :total].long()
        mask = torch.ones(1, total, dtype=torch.bool)
        out = _attend(q[index : index + 1], k_cache[cached], v_cache[cached], mask, scale, cap)
        o[index : index + 1] = out.to(o.dtype)
