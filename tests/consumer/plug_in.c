/* Plugs the allocator in the way PyTorch does: it is given the path of a shared library and the names of two functions,
 *
 *   torch.cuda.memory.CUDAPluggableAllocator("libtidemark.so", "tidemark_cuda_malloc", "tidemark_cuda_free")
 *
 * and looks up the optional ones itself. Knows no header of Tidemark, only the signatures. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

/* ISO C has no conversion between object and function pointers; POSIX gives it this way. */
union symbol {
  void* object;
  void* (*alloc)(ssize_t size, int device, void* stream);
  void (*release)(void* pointer, ssize_t size, int device, void* stream);
  void (*init)(int device_count);
  void (*reset)(void);
  void (*memory_fraction)(double fraction, int device);
  void* (*base_alloc)(void* pointer, size_t* size);
  void (*record_stream)(void* pointer, void* stream);
  void (*set_pool)(const char* tag, int32_t plain);
  void* (*allocator)(int device);
  int32_t (*suspend)(void* allocator, const char* tag, int32_t keep, int64_t* bytes, void** error);
  int32_t (*resume)(void* allocator, const char* tag, void** error);
};

static union symbol find(void* library, const char* name) {
  union symbol found;
  found.object = dlsym(library, name);
  if (found.object == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  return found;
}

#define REQUIRE(condition)                                            \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      return 1;                                                       \
    }                                                                 \
  } while (0)

int main(int argc, char** argv) {
  void* library = argc == 2 ? dlopen(argv[1], RTLD_LAZY | RTLD_LOCAL) : NULL;
  const int device = 0;
  void* blocks[64];
  size_t size = 0;
  Dl_info where;
  union symbol found;
  int i;
  if (library == NULL) {
    fprintf(stderr, "usage: plug_in libtidemark.so (%s)\n", argc == 2 ? dlerror() : "no library given");
    return 2;
  }
  find(library, "tidemark_cuda_init").init(0);
  for (i = 0; i < 64; ++i) {
    blocks[i] = find(library, "tidemark_cuda_malloc").alloc((ssize_t)4096 << (i % 12), device, NULL);
    REQUIRE(blocks[i] != NULL);
    memset(blocks[i], i, (size_t)4096 << (i % 12)); /* TIDEMARK_ALLOCATOR_DEVICE=host: memory of this process */
  }
  REQUIRE(find(library, "tidemark_cuda_base_alloc").base_alloc((char*)blocks[11] + 5, &size) == blocks[11]);
  REQUIRE(size >= (size_t)4096 << 11);
  find(library, "tidemark_cuda_record_stream").record_stream(blocks[3], NULL);
  for (i = 0; i < 64; ++i) {
    REQUIRE(((unsigned char*)blocks[i])[4095] == i);
    find(library, "tidemark_cuda_free").release(blocks[i], (ssize_t)4096 << (i % 12), device, NULL);
  }
  /* A pool by tag, whose memory goes and comes back with what it held. */
  find(library, "tidemark_hooks_set_pool").set_pool("inference", 0);
  blocks[0] = find(library, "tidemark_cuda_malloc").alloc(1 << 20, device, NULL);
  find(library, "tidemark_hooks_set_pool").set_pool(NULL, 0);
  REQUIRE(blocks[0] != NULL);
  memset(blocks[0], 7, 1 << 20);
  found = find(library, "tidemark_cuda_allocator");
  found.object = found.allocator(device);
  REQUIRE(find(library, "tidemark_pool_suspend").suspend(found.object, "inference", 1, NULL, NULL) == 0);
  REQUIRE(find(library, "tidemark_pool_resume").resume(found.object, "inference", NULL) == 0);
  REQUIRE(((unsigned char*)blocks[0])[(1 << 20) - 1] == 7);
  find(library, "tidemark_cuda_free").release(blocks[0], 1 << 20, device, NULL);
  find(library, "tidemark_cuda_set_memory_fraction").memory_fraction(0.5, device);
  find(library, "tidemark_cuda_reset").reset();
  /* Host metadata comes from a library of its own; the process keeps its malloc, and C++ code its operator new. */
  found.object = dlsym(RTLD_DEFAULT, "malloc");
  REQUIRE(dladdr(found.object, &where) != 0 && strstr(where.dli_fname, "libc.") != NULL);
  found = find(library, "_Znwm");
  REQUIRE(dladdr(found.object, &where) != 0 && strstr(where.dli_fname, "libstdc++") != NULL);
  printf("all well\n");
  return 0;
}
