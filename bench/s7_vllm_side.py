"""The other side of S7, in its own process and environment: vLLM's V1 scheduler, steady decode, no device.

`python -m bench.s7_vllm_side ROWS CONTEXT_TOKENS`: each line of standard input is a number of rounds; answered with the
median nanoseconds of CPU and of wall time of one `schedule` + `update_from_output`. Needs vLLM 0.33's Python files and
what they import; neither its kernels nor a device.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

PAGE_TOKENS = 16
_MODEL = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_attention_heads": 4,
    "num_key_value_heads": 4,
    "num_hidden_layers": 1,
    "vocab_size": 32000,
    "max_position_embeddings": 262144,
    "torch_dtype": "float32",
}


class Side:
    """A scheduler whose `rows` requests all decode, contexts staggered over a page, prefix caching on."""

    def __init__(self, rows: int, context_tokens: int, growth_tokens: int) -> None:
        import torch
        import vllm.platforms
        from vllm.platforms.cpu import CpuPlatform

        vllm.platforms.current_platform = CpuPlatform()
        from vllm.config import CacheConfig, ModelConfig, SchedulerConfig, VllmConfig
        from vllm.sampling_params import SamplingParams
        from vllm.utils.hashing import sha256
        from vllm.v1.core.kv_cache_utils import get_request_block_hasher, init_none_hash
        from vllm.v1.core.sched.scheduler import Scheduler
        from vllm.v1.kv_cache_interface import FullAttentionSpec, KVCacheConfig, KVCacheGroupSpec
        from vllm.v1.outputs import ModelRunnerOutput
        from vllm.v1.request import Request
        from vllm.v1.structured_output import StructuredOutputManager

        self._output = ModelRunnerOutput
        longest = context_tokens + growth_tokens + PAGE_TOKENS
        pages = rows * (longest // PAGE_TOKENS + 4)
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "config.json").write_text(json.dumps(_MODEL))
            model = ModelConfig(
                model=folder, tokenizer=folder, skip_tokenizer_init=True, dtype="float32", max_model_len=longest
            )
        scheduler = SchedulerConfig(
            max_num_seqs=rows,
            max_num_batched_tokens=max(8192, rows),
            max_model_len=longest,
            is_encoder_decoder=False,
            async_scheduling=False,
        )
        cache = CacheConfig(block_size=PAGE_TOKENS, enable_prefix_caching=True)
        cache.num_gpu_blocks = pages
        config = VllmConfig(model_config=model, scheduler_config=scheduler, cache_config=cache)
        spec = FullAttentionSpec(block_size=PAGE_TOKENS, num_kv_heads=1, head_size=16, dtype=torch.float32)
        kept = KVCacheConfig(
            num_blocks=pages, kv_cache_tensors=[], kv_cache_groups=[KVCacheGroupSpec(["layer.0"], spec)]
        )
        self._scheduler = Scheduler(config, kept, StructuredOutputManager(config), PAGE_TOKENS)
        init_none_hash(sha256)
        hasher = get_request_block_hasher(PAGE_TOKENS, sha256)
        sampling = SamplingParams(max_tokens=growth_tokens, ignore_eos=True)
        sampling.update_from_generation_config({}, eos_token_id=1)
        for row in range(rows):
            length = context_tokens + row % PAGE_TOKENS
            prompt = [(row * 7919 + token) % 31000 + 2 for token in range(length)]
            self._scheduler.add_request(Request(f"request-{row}", prompt, sampling, None, block_hasher=hasher))
        while self._round()[0] != rows:
            pass

    def _round(self) -> tuple[int, int, int]:
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        plan: Any = self._scheduler.schedule()
        wall_plan, cpu_plan = time.perf_counter_ns() - wall, time.thread_time_ns() - cpu
        ids = list(plan.num_scheduled_tokens)
        decodes = sum(tokens == 1 for tokens in plan.num_scheduled_tokens.values())
        done = self._output(
            req_ids=ids, req_id_to_index={one: at for at, one in enumerate(ids)}, sampled_token_ids=[[7]] * len(ids)
        )
        wall, cpu = time.perf_counter_ns(), time.thread_time_ns()
        self._scheduler.update_from_output(plan, done)
        return decodes, cpu_plan + time.thread_time_ns() - cpu, wall_plan + time.perf_counter_ns() - wall

    def rounds(self, count: int) -> tuple[float, float]:
        """Return the median CPU and wall nanoseconds of `count` rounds."""
        found = [self._round() for _ in range(count)]
        return statistics.median(one[1] for one in found), statistics.median(one[2] for one in found)


def main() -> None:
    """Answer every line."""
    rows, context_tokens = int(sys.argv[1]), int(sys.argv[2])
    side = Side(rows, context_tokens, 4096)
    print("ready", flush=True)
    for line in sys.stdin:
        print(*side.rounds(int(line)), flush=True)


if __name__ == "__main__":
    main()
