"""Experiments in which one thing was changed at a time: what each took more, measured and predicted, as a Markdown table."""

# Of NVIDIA-NeMo/Megatron-Bridge, skills/: where ids of an experiment begin, and what stands in that of its base.
EXPERIMENTS = (("bridge-recompute/moonlight-16b/", "/none@"), ("bridge-layout/llama3-70b/", "/core_attn@"),
               ("bridge-overlap/qwen3-30b-a3b/", "/no-overlap@"))
HEAD = "| Experiment | Change | Measured % | Predicted % | Points apart |"


def measured_of(entry):
    """Seconds, or what is in proportion to them: some rows print model FLOP/s alone, all of one experiment alike."""
    seconds = (entry.get("derived") or {}).get("step_s")
    flops = (entry.get("measured") or {}).get("model_tflops_per_device")
    return seconds or (1 / flops if flops else None)


def name_of(row_id):
    """`h100x8/bf16/tp2pp1ep8/mbs1gbs4s4096/moe_act@2026-08-12` as `tp2pp1ep8, moe_act`."""
    parts = row_id.split("/")
    return f"{parts[-3]}, {parts[-1].split('@')[0]}"


def lines_of(prefix, base, entries, predicted):
    """Rows of one experiment against its base; none where the base is missing."""
    rows = [e for e in entries if e["id"].startswith(prefix) and predicted.get(e["id"]) and measured_of(e)]
    bases = [e for e in rows if base in e["id"]]
    if len(bases) != 1:
        return []
    lines = []
    for entry in rows:
        if entry is bases[0]:
            continue
        measured = 100 * (measured_of(entry) / measured_of(bases[0]) - 1)
        model = 100 * (predicted[entry["id"]] / predicted[bases[0]["id"]] - 1)
        lines.append(f"| {prefix.split('/')[1]}, {name_of(bases[0]['id'])} | {name_of(entry['id'])} | {measured:+.1f} | "
                     f"{model:+.1f} | {abs(model - measured):.1f} |")
    return lines


def knob_table(entries, predicted):
    """`predicted`: seconds by id. Empty where no experiment is among the rows."""
    lines = [line for prefix, base in EXPERIMENTS for line in lines_of(prefix, base, entries, predicted)]
    return "\n".join([HEAD, "|---|---|--:|--:|--:|"] + lines) + "\n" if lines else ""
