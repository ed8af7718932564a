/* Pools from C: by tag on the host device, whose memory has bytes; of captured graphs through the hooks, on the
 * simulated device. No GPU takes part: begin, end and release are called directly, as a framework that captures would.
 * Run with TIDEMARK_ALLOCATOR_DEVICE=sim. */
#include <stdio.h>
#include <string.h>
#include <tidemark/tidemark.h>

#include "tests/support/checks.h"

static const int64_t kMiB = 1024 * 1024;

static int64_t free_bytes(tidemark_device* device) {
  int64_t total = 0, free = 0;
  CHECK_OK(tidemark_device_memory(device, &total, &free, error));
  return free;
}

static int says(const tidemark_allocator* allocator, const char* text) {
  tidemark_buffer* json = NULL;
  int found = 0;
  CHECK_OK(tidemark_allocator_memory_stats(allocator, &json, error));
  found = json != NULL && strstr(tidemark_buffer_data(json), text) != NULL;
  tidemark_buffer_free(json);
  return found;
}

/* The second block of a size comes from what is kept at hand, unless nothing is. */
static void test_kept_bytes(void) {
  tidemark_allocator_options options = {.struct_size = sizeof options, .kept_bytes = 1};
  tidemark_device* device = NULL;
  int kept, round;
  CHECK_OK(tidemark_device_open("sim", NULL, &device, error));
  for (kept = 0; kept < 2; ++kept) {
    tidemark_allocator* allocator = NULL;
    CHECK_OK(tidemark_allocator_create(device, kept ? NULL : &options, &allocator, error));
    for (round = 0; round < 2; ++round) {
      tidemark_address block = 0;
      CHECK_OK(tidemark_allocator_allocate(allocator, 4096, 0, 0, &block, error));
      CHECK_OK(tidemark_allocator_release(allocator, block, error));
    }
    CHECK(says(allocator, kept ? "\"front_hits\":1" : "\"front_hits\":0"));
    tidemark_allocator_free(allocator);
  }
  tidemark_device_close(device);
}

static void test_tagged_memory_comes_back(void) {
  tidemark_device_options options = {.struct_size = sizeof options, .capacity_bytes = 256 * 1024 * 1024};
  tidemark_pool_options plain = {.struct_size = sizeof plain, .plain = 1};
  tidemark_allocator_statistics statistics = {.struct_size = sizeof statistics};
  tidemark_device* device = NULL;
  tidemark_allocator* allocator = NULL;
  tidemark_address block = 0, other = 0, buffer = 0;
  int64_t all = 0, bytes = 0, i = 0;
  unsigned char* memory = NULL;
  CHECK_OK(tidemark_device_open("host", &options, &device, error));
  CHECK_OK(tidemark_allocator_create(device, NULL, &allocator, error));
  all = free_bytes(device);
  CHECK_OK(tidemark_pool_create(allocator, "inference", NULL, error));
  CHECK_OK(tidemark_pool_create(allocator, "inference", NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "not plain", tidemark_pool_create(allocator, "inference", &plain, error));
  CHECK_OK(tidemark_pool_create(allocator, "buffers", &plain, error));
  CHECK_OK(tidemark_pool_allocate(allocator, "inference", 40 * kMiB, 0, 7, &block, error));
  CHECK_OK(tidemark_pool_allocate(allocator, "buffers", kMiB, 0, 7, &buffer, error));
  CHECK_OK(tidemark_allocator_block_bytes(allocator, block, &bytes, error));
  CHECK(bytes == 40 * kMiB);
  memory = (unsigned char*)(uintptr_t)block;
  for (i = 0; i < 40 * kMiB; ++i) memory[i] = (unsigned char)(i * 7 + 1);
  CHECK_OK(tidemark_pool_suspend(allocator, "inference", 1, &bytes, error));
  CHECK(bytes == 40 * kMiB);
  CHECK(says(allocator, "\"suspended\":true"));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "suspended",
                tidemark_pool_allocate(allocator, "inference", 1, 0, 0, &other, error));
  CHECK_OK(tidemark_allocator_allocate(allocator, 230 * kMiB, 0, 0, &other, error)); /* its memory serves another */
  CHECK_REFUSED(TIDEMARK_STATUS_OUT_OF_MEMORY, "stays suspended", tidemark_pool_resume(allocator, "inference", error));
  CHECK_OK(tidemark_allocator_release(allocator, other, error));
  CHECK_OK(tidemark_pool_resume(allocator, "inference", error)); /* what lies idle there is given back first */
  for (i = 0; i < 40 * kMiB && memory[i] == (unsigned char)(i * 7 + 1); ++i) continue;
  CHECK(i == 40 * kMiB);
  CHECK_REFUSED(TIDEMARK_STATUS_UNSUPPORTED, "plain", tidemark_pool_suspend(allocator, "buffers", 0, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "1 live blocks", tidemark_pool_destroy(allocator, "inference", error));
  CHECK_OK(tidemark_allocator_get_statistics(allocator, &statistics, error));
  CHECK(statistics.allocated_bytes == 41 * kMiB && statistics.allocations == 2);
  CHECK_OK(tidemark_allocator_release(allocator, block, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "", tidemark_allocator_release(allocator, block, error));
  CHECK_OK(tidemark_allocator_release(allocator, buffer, error));
  CHECK_OK(tidemark_pool_destroy(allocator, "inference", error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "no pool 'inference'", tidemark_pool_resume(allocator, "inference", error));
  CHECK_OK(tidemark_allocator_empty_cache(allocator, NULL, error));
  CHECK(free_bytes(device) == all);
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "a tag has", tidemark_pool_create(allocator, "", NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "a tag has", tidemark_pool_create(allocator, NULL, NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "allocator is NULL", tidemark_pool_create(NULL, "a", NULL, error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "filter is NULL",
                tidemark_graph_pool_begin(allocator, 1, 0, NULL, NULL, NULL, error));
  CHECK_OK(tidemark_pool_create(allocator, "left", NULL, error));
  CHECK_OK(tidemark_pool_allocate(allocator, "left", kMiB, 0, 0, &block, error));
  tidemark_allocator_free(allocator); /* pools go along */
  CHECK(free_bytes(device) == all);
  tidemark_device_close(device);
}

struct Capture {
  tidemark_stream stream;
  int asked;
  int dropped;
};

static int32_t is_captured(void* user, tidemark_stream stream) {
  struct Capture* capture = user;
  ++capture->asked;
  return stream == capture->stream;
}

static void drop(void* user) {
  ++((struct Capture*)user)->dropped;
}

enum { kBlocks = 32 };

static int overlap(const char* a, const char* b, int64_t bytes) {
  return a < b + bytes && b < a + bytes;
}

static void test_what_a_graph_uses_serves_no_eager_work(void) {
  tidemark_allocator* allocator = tidemark_cuda_allocator(2);
  struct Capture capture = {.stream = 0x100};
  void* stream = (void*)(uintptr_t)capture.stream;
  char *temporary, *output, *eager[kBlocks];
  tidemark_error* failed = NULL;
  void* pointer = NULL;
  int i;
  CHECK(allocator != NULL && tidemark_cuda_allocator(2) == allocator && tidemark_cuda_allocator(64) == NULL);
  tidemark_allocator_free(allocator); /* the hooks' own is never freed */
  CHECK_OK(tidemark_graph_pool_begin(allocator, 7, 1, is_captured, drop, &capture, error));
  temporary = tidemark_cuda_malloc(4 * kMiB, 2, stream);
  output = tidemark_cuda_malloc(4 * kMiB, 2, stream);
  tidemark_cuda_free(temporary, 4 * kMiB, 2, stream);
  CHECK_OK(tidemark_graph_pool_end(allocator, 7, 1, error));
  CHECK(capture.asked > 0 && capture.dropped == 1);
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "is open", tidemark_graph_pool_end(allocator, 7, 1, error));
  for (i = 0; i < kBlocks; ++i) {
    eager[i] = tidemark_cuda_malloc(4 * kMiB, 2, i % 2 == 0 ? stream : NULL);
    CHECK(eager[i] != NULL && !overlap(eager[i], temporary, 4 * kMiB) && !overlap(eager[i], output, 4 * kMiB));
  }
  for (i = 0; i < kBlocks; ++i) tidemark_cuda_free(eager[i], 4 * kMiB, 2, NULL);
  tidemark_cuda_reset();
  CHECK(says(allocator, "\"graph\":[7,1]") && says(allocator, "\"reserved_bytes\":8388608"));
  CHECK_OK(tidemark_graph_pool_release(allocator, 7, 1, error));
  CHECK(says(allocator, "\"graph\":[7,1]")); /* a block is live */
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "is in use", tidemark_graph_pool_release(allocator, 7, 1, error));
  tidemark_cuda_free(output, 4 * kMiB, 2, stream);
  CHECK(says(allocator, "\"pools\":[]") && says(allocator, "\"reserved_bytes.all.current\":0"));
  CHECK(tidemark_cuda_allocate((ssize_t)1 << 40, 2, stream, &pointer, &failed) == TIDEMARK_STATUS_OUT_OF_MEMORY);
  CHECK(pointer == NULL && strstr(tidemark_error_message(failed), "tried to allocate 1.00 TiB") != NULL);
  tidemark_error_free(failed);
  CHECK(tidemark_cuda_allocate(1, 2, stream, NULL, NULL) == TIDEMARK_STATUS_INVALID);
}

/* During a capture the device cannot be waited for: pools are neither destroyed nor suspended, and go on serving. The
 * captured graph's own pool may be released; it stays until the capture is over and its blocks are. */
static void test_pools_while_a_graph_is_captured(void) {
  tidemark_device_options options = {.struct_size = sizeof options, .capacity_bytes = 256 * 1024 * 1024};
  tidemark_device* device = NULL;
  tidemark_allocator* allocator = NULL;
  struct Capture capture = {0};
  tidemark_address kept = 0, captured[2] = {0}, other = 0;
  int64_t all = 0, before = 0;
  CHECK_OK(tidemark_device_open("host", &options, &device, error));
  CHECK_OK(tidemark_device_create_stream(device, &capture.stream, error));
  CHECK_OK(tidemark_allocator_create(device, NULL, &allocator, error));
  all = free_bytes(device);
  CHECK_OK(tidemark_pool_create(allocator, "kept", NULL, error));
  CHECK_OK(tidemark_pool_create(allocator, "idle", NULL, error));
  CHECK_OK(tidemark_pool_allocate(allocator, "kept", 8 * kMiB, 0, 0, &kept, error));
  memset((void*)(uintptr_t)kept, 'k', (size_t)(8 * kMiB));
  CHECK_OK(tidemark_graph_pool_begin(allocator, 7, 1, is_captured, drop, &capture, error));
  CHECK_OK(tidemark_allocator_allocate(allocator, 4 * kMiB, capture.stream, 0, &captured[0], error));
  memset((void*)(uintptr_t)captured[0], 'c', (size_t)(4 * kMiB));
  before = free_bytes(device);
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "during a capture", tidemark_pool_destroy(allocator, "idle", error));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "during a capture", tidemark_pool_suspend(allocator, "kept", 1, NULL, error));
  CHECK(free_bytes(device) == before && says(allocator, "\"tag\":\"idle\""));
  CHECK_OK(tidemark_pool_allocate(allocator, "idle", kMiB, 0, 0, &other, error));
  CHECK_OK(tidemark_allocator_release(allocator, other, error));

  CHECK_OK(tidemark_graph_pool_release(allocator, 7, 1, error)); /* its only begin, while it is open */
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "is in use", tidemark_graph_pool_release(allocator, 7, 1, error));
  CHECK(capture.dropped == 0 && all_are(captured[0], 4 * kMiB, 'c'));
  CHECK_OK(tidemark_allocator_release(allocator, captured[0], error));
  CHECK(says(allocator, "\"graph\":[7,1]")); /* no block is live, but it is open */
  CHECK_OK(tidemark_allocator_allocate(allocator, 4 * kMiB, capture.stream, 0, &captured[1], error));
  memset((void*)(uintptr_t)captured[1], 'd', (size_t)(4 * kMiB));
  CHECK_OK(tidemark_graph_pool_end(allocator, 7, 1, error));
  CHECK(capture.dropped == 1 && says(allocator, "\"graph\":[7,1]"));
  CHECK(all_are(captured[1], 4 * kMiB, 'd'));
  CHECK_OK(tidemark_allocator_release(allocator, captured[1], error));
  CHECK(!says(allocator, "\"graph\":[7,1]"));

  CHECK(all_are(kept, 8 * kMiB, 'k'));
  CHECK_OK(tidemark_pool_destroy(allocator, "idle", error));
  CHECK_OK(tidemark_allocator_release(allocator, kept, error));
  CHECK_OK(tidemark_pool_destroy(allocator, "kept", error));
  CHECK_OK(tidemark_allocator_empty_cache(allocator, NULL, error));
  CHECK(free_bytes(device) == all);

  /* The allocator itself goes in the middle of a capture: blocks, pools and the filter go along. */
  CHECK_OK(tidemark_pool_create(allocator, "kept", NULL, error));
  CHECK_OK(tidemark_pool_allocate(allocator, "kept", 8 * kMiB, 0, 0, &kept, error));
  CHECK_OK(tidemark_graph_pool_begin(allocator, 7, 2, is_captured, drop, &capture, error));
  CHECK_OK(tidemark_allocator_allocate(allocator, 4 * kMiB, capture.stream, 0, &captured[0], error));
  tidemark_allocator_free(allocator);
  CHECK(capture.dropped == 2 && free_bytes(device) == all);
  tidemark_device_close(device);
}

/* The pool that a thread allocates from by the hooks: it goes where no block is live, and comes again when it is
 * wanted. */
static void test_destroying_the_threads_pool(void) {
  tidemark_allocator* allocator = tidemark_npu_allocator(4);
  char *held, *again;
  size_t size = 0;
  tidemark_hooks_set_pool("current", 0);
  held = tidemark_npu_malloc(3 * kMiB, 4, NULL);
  CHECK(held != NULL && says(allocator, "\"tag\":\"current\""));
  CHECK_REFUSED(TIDEMARK_STATUS_INVALID, "1 live blocks", tidemark_pool_destroy(allocator, "current", error));
  CHECK(tidemark_npu_base_alloc(held, &size) == (void*)held && (int64_t)size >= 3 * kMiB);
  tidemark_npu_free(held, 3 * kMiB, 4, NULL);
  CHECK_OK(tidemark_pool_destroy(allocator, "current", error));
  CHECK(says(allocator, "\"pools\":[]") && says(allocator, "\"reserved_bytes.all.current\":0"));
  again = tidemark_npu_malloc(3 * kMiB, 4, NULL);
  CHECK(again != NULL && says(allocator, "\"tag\":\"current\""));
  tidemark_npu_free(again, 3 * kMiB, 4, NULL);
  tidemark_hooks_set_pool(NULL, 0);
  CHECK_OK(tidemark_pool_destroy(allocator, "current", error));
}

static void test_hooks_allocate_from_the_threads_pool(void) {
  tidemark_allocator* allocator = tidemark_npu_allocator(3);
  void *held, *plain;
  tidemark_hooks_set_pool("training", 0);
  held = tidemark_npu_malloc(3 * kMiB, 3, NULL);
  tidemark_hooks_set_pool(NULL, 0);
  plain = tidemark_npu_malloc_plain(kMiB, 3, NULL);
  CHECK(held != NULL && plain != NULL && says(allocator, "\"tag\":\"training\""));
  CHECK_OK(tidemark_pool_suspend(allocator, "training", 0, NULL, error));
  CHECK_OK(tidemark_pool_resume(allocator, "training", error));
  tidemark_npu_free(held, 3 * kMiB, 3, NULL);
  tidemark_npu_free(plain, kMiB, 3, NULL);
  CHECK_OK(tidemark_pool_destroy(allocator, "training", error));
}

int main(void) {
  test_kept_bytes();
  test_tagged_memory_comes_back();
  test_what_a_graph_uses_serves_no_eager_work();
  test_pools_while_a_graph_is_captured();
  test_hooks_allocate_from_the_threads_pool();
  test_destroying_the_threads_pool();
  if (failures == 0) printf("all well\n");
  return failures == 0 ? 0 : 1;
}
