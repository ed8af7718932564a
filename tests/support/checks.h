/* What the C programs in tests/c_api check with: every check that fails is one line on stderr and counted. An `error`
 * is in scope of `call`, for its last argument. */
#pragma once

#include <stdio.h>
#include <string.h>
#include <tidemark/tidemark.h>

static int failures = 0;

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      ++failures;                                                     \
    }                                                                 \
  } while (0)

#define CHECK_OK(call)                                                                                      \
  do {                                                                                                      \
    tidemark_error* error_of_call = NULL;                                                                   \
    tidemark_error** error = &error_of_call;                                                                \
    if ((call) != TIDEMARK_STATUS_OK) {                                                                     \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, tidemark_error_message(error_of_call)); \
      ++failures;                                                                                           \
    }                                                                                                       \
    tidemark_error_free(error_of_call);                                                                     \
  } while (0)

/* The call is refused with this status and a text that contains `says`; and with NULL for the error as well. */
#define CHECK_REFUSED(wanted, says, call)                                                            \
  do {                                                                                               \
    tidemark_error* error_of_call = NULL;                                                            \
    tidemark_error** error = &error_of_call;                                                         \
    tidemark_status got = (call);                                                                    \
    if (got != (wanted) || tidemark_error_status(error_of_call) != (wanted) ||                       \
        strstr(tidemark_error_message(error_of_call), (says)) == NULL) {                             \
      fprintf(stderr, "%s:%d: %s: %s: '%s'\n", __FILE__, __LINE__, #call, tidemark_status_name(got), \
              tidemark_error_message(error_of_call));                                                \
      ++failures;                                                                                    \
    }                                                                                                \
    tidemark_error_free(error_of_call);                                                              \
    error = NULL;                                                                                    \
    if ((call) != (wanted)) {                                                                        \
      fprintf(stderr, "%s:%d: %s without an error object\n", __FILE__, __LINE__, #call);             \
      ++failures;                                                                                    \
    }                                                                                                \
  } while (0)

/* Whether every byte of a block that lies in this process is `value`. */
static inline int all_are(tidemark_address address, int64_t bytes, int value) {
  const unsigned char* memory = (const unsigned char*)(uintptr_t)address;
  int64_t i = 0;
  while (i < bytes && memory[i] == value) ++i;
  return i == bytes;
}
