/* The ranks of an expert group agree on layers in chunks: three threads, a simulated device each, one position of a
 * plan. In a job they are processes on several hosts, and the address is "tcp:HOST:PORT" of rank 0's. How the plan is
 * made is in docs/c_api.md.
 */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <tidemark/tidemark.h>

enum { kMembers = 3 };

struct Member {
  const char* address;
  int32_t rank; /* of the expert group */
  const tidemark_plan* plan;
  double load;
  int64_t device_bytes;
  int64_t chunked; /* sections */
  tidemark_status status;
  char text[512];
};

static double load_of(void* user, int32_t site) {
  (void)site; /* the same everywhere */
  return ((const struct Member*)user)->load;
}

static void* run(void* user) {
  struct Member* member = user;
  tidemark_error* error = NULL;
  tidemark_device* device = NULL;
  tidemark_expert_group* group = NULL;
  tidemark_device_options opened = {.struct_size = sizeof opened, .capacity_bytes = member->device_bytes};
  tidemark_expert_group_options limits = {.struct_size = sizeof limits, .timeout_ms = 60000};
  tidemark_run_options options = {.struct_size = sizeof options, .load = load_of, .user = member};
  tidemark_run_report report = {.struct_size = sizeof report};
  member->status = tidemark_device_open("sim", &opened, &device, &error);
  if (member->status == TIDEMARK_STATUS_OK)
    member->status = tidemark_expert_group_open(member->address, member->rank, kMembers, &limits, &group, &error);
  options.expert_group = group;
  if (member->status == TIDEMARK_STATUS_OK)
    member->status = tidemark_plan_run_rank(member->plan, 0, device, &options, &report, &error);
  member->chunked = report.chunked_sections;
  snprintf(member->text, sizeof member->text, "%s", tidemark_error_message(error));
  if (error != NULL) printf("member %d: %s\n", (int)member->rank, member->text);
  tidemark_error_free(error);
  tidemark_expert_group_close(group);
  tidemark_device_close(device);
  return NULL;
}

/* Not 0: all have run. */
static int run_group(struct Member* members) {
  pthread_t threads[kMembers];
  int started = 0;
  while (started < kMembers && pthread_create(&threads[started], NULL, run, &members[started]) == 0) ++started;
  for (int i = 0; i < started; ++i) pthread_join(threads[i], NULL);
  return started == kMembers;
}

int main(int argc, char** argv) {
  tidemark_error* error = NULL;
  tidemark_plan* plan = NULL;
  tidemark_rank_figures figures = {.struct_size = sizeof figures};
  struct Member members[kMembers];
  int well = 1;
  if (argc != 3 || tidemark_plan_read(argv[1], &plan, &error) != TIDEMARK_STATUS_OK ||
      tidemark_plan_rank_figures(plan, 0, &figures, &error) != TIDEMARK_STATUS_OK) {
    fprintf(stderr, "usage: expert_group PLAN ADDRESS; %s\n", tidemark_error_message(error));
    tidemark_error_free(error);
    tidemark_plan_free(plan);
    return 2;
  }
  /* One needs chunks: all run in chunks what it wants so. */
  for (int i = 0; i < kMembers; ++i)
    members[i] = (struct Member){
        .address = argv[2], .rank = i, .plan = plan, .load = i == 0 ? figures.worst_load_f : figures.load};
  well &= run_group(members);
  for (int i = 0; i < kMembers; ++i)
    well &= members[i].status == TIDEMARK_STATUS_OK && members[i].chunked == members[0].chunked;
  printf("rank %d at load %.4g: %d sections in chunks\n", figures.rank, members[0].load, (int)members[0].chunked);
  well &= members[0].chunked > 0;

  /* One has too little memory: it leaves, and the others are told which. */
  for (int i = 0; i < kMembers; ++i)
    members[i] = (struct Member){.address = argv[2],
                                 .rank = i,
                                 .plan = plan,
                                 .load = figures.load,
                                 .device_bytes = i == 1 ? figures.peak_bytes / 2 : 0};
  well &= run_group(members);
  for (int i = 0; i < kMembers; ++i)
    well &= i == 1
                ? members[i].status == TIDEMARK_STATUS_INFEASIBLE
                : members[i].status == TIDEMARK_STATUS_PEER_LOST && strstr(members[i].text, "rank 1 of the 3") != NULL;
  tidemark_plan_free(plan);
  return well ? 0 : 1;
}
