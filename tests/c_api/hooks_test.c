/* The framework hooks, called the way a framework calls them, on simulated devices: two indices, streams, bad
 * arguments. Run with TIDEMARK_ALLOCATOR_DEVICE=sim. */
#define _POSIX_C_SOURCE 200809L

#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <tidemark/tidemark.h>
#include <unistd.h>

#include "tests/support/checks.h"

/* How often `says` was written to stderr since it was turned to `log`. */
static int count_in(FILE* log, const char* says) {
  char line[4096];
  int count = 0;
  rewind(log);
  while (fgets(line, sizeof line, log) != NULL) count += strstr(line, says) != NULL;
  return count;
}

/* An index that is no device's gives NULL and one line, however often it is asked for. */
static void test_bad_index(void) {
  FILE* log = tmpfile();
  const int before = dup(STDERR_FILENO);
  size_t size = 1;
  int i;
  CHECK(log != NULL && before >= 0 && dup2(fileno(log), STDERR_FILENO) == STDERR_FILENO);
  for (i = 0; i < 100; ++i) {
    CHECK(tidemark_cuda_malloc(1, -1, NULL) == NULL);
    CHECK(tidemark_cuda_malloc(1, 64 + i, NULL) == NULL);
    CHECK(tidemark_npu_malloc(1, 1000000, NULL) == NULL);
  }
  tidemark_cuda_free((void*)512, 1, 64, NULL);
  tidemark_cuda_set_memory_fraction(0.5, -7);
  tidemark_cuda_init(-1);
  tidemark_npu_reset_peaks(64);
  CHECK(tidemark_cuda_base_alloc(NULL, &size) == NULL && size == 0);
  fflush(stderr);
  CHECK(dup2(before, STDERR_FILENO) == STDERR_FILENO);
  CHECK(count_in(log, "device -1: device indices are 0 to 63") == 1);      /* the cuda family */
  CHECK(count_in(log, "device 1000000: device indices are 0 to 63") == 1); /* the npu family */
  CHECK(count_in(log, "") == 2);
  fclose(log);
  close(before);
}

/* PyTorch takes NULL for memory, so once it is said what to give it instead. */
static void test_null_is_said_to_be_no_tensor(void) {
  FILE* log = tmpfile();
  const int before = dup(STDERR_FILENO);
  CHECK(log != NULL && before >= 0 && dup2(fileno(log), STDERR_FILENO) == STDERR_FILENO);
  CHECK(tidemark_cuda_malloc((ssize_t)1 << 40, 5, NULL) == NULL);
  CHECK(tidemark_npu_malloc((ssize_t)1 << 40, 5, NULL) == NULL);
  fflush(stderr);
  CHECK(dup2(before, STDERR_FILENO) == STDERR_FILENO);
  CHECK(count_in(log, "tried to allocate 1.00 TiB") == 2);
  CHECK(count_in(log, "take for memory") == 1 && count_in(log, "tidemark_torch_cuda_malloc") == 1);
  fclose(log);
  close(before);
}

static void test_cuda(void) {
  void* stream = (void*)0;
  size_t size = 0;
  char* a;
  char* b;
  tidemark_cuda_init(0);
  a = tidemark_cuda_malloc(1 << 20, 0, stream);
  b = tidemark_cuda_malloc(1 << 20, 1, stream);
  CHECK(a != NULL && b != NULL);
  CHECK(tidemark_cuda_base_alloc(a, &size) == (void*)a && size >= 1 << 20);
  size = 0;
  CHECK(tidemark_cuda_base_alloc(a + 4096, &size) == (void*)a && size >= 1 << 20);
  CHECK(tidemark_cuda_base_alloc((void*)8, &size) == NULL && size == 0);
  tidemark_cuda_record_stream(a, stream);
  tidemark_cuda_record_stream((void*)8, stream);
  tidemark_cuda_record_stream(NULL, stream);
  tidemark_cuda_free(a, 1 << 20, 0, stream);
  tidemark_cuda_free(a, 1 << 20, 0, stream); /* a second time: logged */
  tidemark_cuda_free(NULL, 0, 0, stream);
  tidemark_cuda_free(b, 1 << 20, 1, stream);
  CHECK(tidemark_cuda_malloc(-1, 0, stream) == NULL);
  tidemark_cuda_reset();
  /* 64 GiB is what the simulated device has. */
  tidemark_cuda_set_memory_fraction(1.0 / 1024, 0);
  tidemark_cuda_set_memory_fraction(7, 0);
  CHECK(tidemark_cuda_malloc((ssize_t)1 << 30, 0, stream) == NULL);
  a = tidemark_cuda_malloc(1 << 20, 0, stream);
  CHECK(a != NULL);
  tidemark_cuda_free(a, 1 << 20, 0, stream);
}

static void test_npu(void) {
  tidemark_allocator_statistics statistics;
  size_t size = 0;
  char* a = tidemark_npu_malloc(1000, 0, NULL);
  memset(&statistics, 0, sizeof statistics);
  statistics.struct_size = sizeof statistics;
  CHECK(a != NULL);
  CHECK(tidemark_npu_base_alloc(a, &size) == (void*)a && size >= 1000);
  tidemark_npu_record_stream(a, NULL);
  tidemark_npu_erase_stream(a, NULL);
  CHECK(tidemark_npu_get_statistics(0, &statistics) == TIDEMARK_STATUS_OK);
  CHECK(statistics.requested_bytes == 1000 && statistics.allocations == 1);
  CHECK(tidemark_npu_get_statistics(-1, &statistics) == TIDEMARK_STATUS_INVALID);
  CHECK(tidemark_npu_get_statistics(0, NULL) == TIDEMARK_STATUS_INVALID);
  tidemark_npu_free(a, 1000, 0, NULL);
  tidemark_npu_reset_peaks(0);
  CHECK(tidemark_npu_get_statistics(0, &statistics) == TIDEMARK_STATUS_OK);
  CHECK(statistics.requested_peak_bytes == 0);
  tidemark_npu_init(1);
  tidemark_npu_set_memory_fraction(0.5, 0);
  tidemark_npu_reset(true);
}

static int32_t count_submits(void* user, int32_t ordinal, char* why, int64_t why_bytes) {
  (void)why;
  (void)why_bytes;
  CHECK(ordinal == 2);
  ++*(int*)user;
  return TIDEMARK_SUBMITTED;
}

/* Of devices that are open already, and of NPUs alone. */
static void test_npu_queue(void) {
  int asked = 0;
  void* a = tidemark_npu_malloc(1 << 20, 2, NULL);
  void* b = tidemark_cuda_malloc(1 << 20, 2, NULL);
  tidemark_npu_set_submit_queued(count_submits, &asked);
  tidemark_npu_record_stream(a, NULL);
  tidemark_npu_free(a, 1 << 20, 2, NULL);
  tidemark_cuda_free(b, 1 << 20, 2, NULL);
  tidemark_cuda_reset();
  CHECK(asked == 0); /* nothing was waited for */
  CHECK(tidemark_npu_malloc((ssize_t)1 << 40, 2, NULL) == NULL);
  CHECK(asked > 0); /* the device was, for what may come free */
  tidemark_npu_set_submit_queued(NULL, NULL);
  asked = 0;
  CHECK(tidemark_npu_malloc((ssize_t)1 << 40, 2, NULL) == NULL);
  CHECK(asked == 0);
}

int main(void) {
  test_bad_index();
  test_null_is_said_to_be_no_tensor();
  test_cuda();
  test_npu();
  test_npu_queue();
  if (failures == 0) printf("all well\n");
  return failures == 0 ? 0 : 1;
}
