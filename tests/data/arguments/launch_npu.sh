#!/bin/bash
# A small dense model on two nodes, as MindSpeed-LLM's examples are written.
export CUDA_DEVICE_MAX_CONNECTIONS=1
export PYTORCH_NPU_ALLOC_CONF=expandable_segments:True

NPUS_PER_NODE=8
MASTER_ADDR=localhost # one node would do
MASTER_PORT=6000
NNODES=${NNODES:-2}
NODE_RANK=${1:-0}
WORLD_SIZE=$(($NPUS_PER_NODE*$NNODES))

CKPT_LOAD_DIR="your model ckpt path"
TP=2
PP=4
SEQ_LEN=$((4 * 1024))

DISTRIBUTED_ARGS="
    --nproc_per_node $NPUS_PER_NODE \
    --nnodes $NNODES \
    --node_rank $NODE_RANK \
    --master_addr $MASTER_ADDR \
    --master_port $MASTER_PORT
"

if [ "$TP" -gt 1 ]; then
    EXTRA="--sequence-parallel"
elif [[ -n $EXTRA ]]; then
    EXTRA="--not-reached"
else
    EXTRA=""
fi
[ -z "$EXTRA" ] && EXTRA="--not-reached"

GPT_ARGS="
    --tensor-model-parallel-size ${TP} \
    --pipeline-model-parallel-size ${PP} \
    --num-layers 8 \
    --hidden-size 1024 --ffn-hidden-size 2752 \
    --num-attention-heads 16 \
    --seq-length $SEQ_LEN --max-position-embeddings ${SEQ_LEN} \
    --micro-batch-size 1 --global-batch-size 64 \
    --swiglu --bf16 --untie-embeddings-and-output-weights \
    --use-flash-attn --disable-bias-linear --normalization RMSNorm \
    --reuse-fp32-param --use-distributed-optimizer \
    --tokenizer-type Llama2Tokenizer --tokenizer-model ${TOKENIZER_MODEL} \
    --attention-dropout 0.0 --hidden-dropout 0.0 \
    --lr 1.25e-6
"

MORE_ARGS=(
    --position-embedding-type rope   # a comment between items
    --no-gradient-accumulation-fusion
)
MORE_ARGS+=(--recompute-granularity full --recompute-method block)

cat > /dev/null <<EOF
torchrun elsewhere.py --num-layers 99
EOF

for NOT_FOLLOWED in 1 2 3; do
    OTHER_ARGS="--num-layers 77"
done

torchrun $DISTRIBUTED_ARGS pretrain_gpt.py \
    $GPT_ARGS \
    "${MORE_ARGS[@]}" \
    --recompute-num-layers=1 \
    $EXTRA $DATA_ARGS \
    --distributed-backend nccl \
    --save "$CKPT_LOAD_DIR" 2>&1 | tee logs/train.log
