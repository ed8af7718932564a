#include "device/cuda_kernels.h"

#include <algorithm>

#include "device/pattern.h"

namespace tidemark::cuda {
namespace {

constexpr std::uint64_t kThreads = 256;  ///< of a block
constexpr std::uint64_t kBlocks = 1024;  ///< at most; each thread strides over what is left
constexpr std::size_t kReportBytes = sizeof(Report) + kReportSlots * sizeof(std::uint64_t);
static_assert(kReportSlots == 4096, "the check kernel masks the serial with 4095");
static_assert(kPatternStep == 0x9E3779B97F4A7C15ULL, "the kernels hold this constant");

// Both pattern kernels: %rd1 address, %rd2 words, %rd3 the pattern's word 0, %r1 bytes of the tail; then %rd4 this
// thread's word, %rd5 the stride of all threads, %rd6 the address of the word, %rd7 what belongs there.
constexpr const char* kText = R"(
.version 6.0
.target sm_52
.address_size 64

.visible .entry tidemark_fill(
  .param .u64 p_address, .param .u64 p_words, .param .u64 p_first, .param .u32 p_tail)
{
  .reg .pred %p<4>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<16>;
  ld.param.u64 %rd1, [p_address];
  ld.param.u64 %rd2, [p_words];
  ld.param.u64 %rd3, [p_first];
  ld.param.u32 %r1, [p_tail];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mov.u32 %r5, %nctaid.x;
  cvt.u64.u32 %rd4, %r4;
  mad.wide.u32 %rd4, %r2, %r3, %rd4;
  mul.wide.u32 %rd5, %r5, %r3;
  setp.ne.u64 %p1, %rd4, 0;
  setp.eq.u32 %p2, %r1, 0;
  or.pred %p3, %p1, %p2;
  @%p3 bra WORDS;
  mul.lo.u64 %rd7, %rd2, 0x9E3779B97F4A7C15;
  add.u64 %rd7, %rd7, %rd3;
  shl.b64 %rd6, %rd2, 3;
  add.u64 %rd6, %rd6, %rd1;
TAIL:
  st.global.u8 [%rd6], %rd7;
  shr.u64 %rd7, %rd7, 8;
  add.u64 %rd6, %rd6, 1;
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra TAIL;
WORDS:
  setp.ge.u64 %p1, %rd4, %rd2;
  @%p1 bra DONE;
  mul.lo.u64 %rd7, %rd4, 0x9E3779B97F4A7C15;
  add.u64 %rd7, %rd7, %rd3;
  shl.b64 %rd6, %rd4, 3;
  add.u64 %rd6, %rd6, %rd1;
  st.global.u64 [%rd6], %rd7;
  add.u64 %rd4, %rd4, %rd5;
  bra WORDS;
DONE:
  ret;
}

.visible .entry tidemark_check(
  .param .u64 p_address, .param .u64 p_words, .param .u64 p_first, .param .u32 p_tail,
  .param .u64 p_report, .param .u64 p_serial, .param .u64 p_work, .param .u64 p_bytes, .param .u64 p_seed)
{
  .reg .pred %p<4>;
  .reg .b32 %r<8>;
  .reg .b64 %rd<24>;
  ld.param.u64 %rd1, [p_address];
  ld.param.u64 %rd2, [p_words];
  ld.param.u64 %rd3, [p_first];
  ld.param.u32 %r1, [p_tail];
  cvta.to.global.u64 %rd1, %rd1;
  mov.u32 %r2, %ctaid.x;
  mov.u32 %r3, %ntid.x;
  mov.u32 %r4, %tid.x;
  mov.u32 %r5, %nctaid.x;
  cvt.u64.u32 %rd4, %r4;
  mad.wide.u32 %rd4, %r2, %r3, %rd4;
  mul.wide.u32 %rd5, %r5, %r3;
  setp.ne.u64 %p1, %rd4, 0;
  setp.eq.u32 %p2, %r1, 0;
  or.pred %p3, %p1, %p2;
  @%p3 bra WORDS;
  mul.lo.u64 %rd7, %rd2, 0x9E3779B97F4A7C15;
  add.u64 %rd7, %rd7, %rd3;
  shl.b64 %rd6, %rd2, 3;
  add.u64 %rd6, %rd6, %rd1;
TAIL:
  ld.global.u8 %rd8, [%rd6];
  and.b64 %rd9, %rd7, 255;
  setp.ne.u64 %p1, %rd8, %rd9;
  @%p1 bra FOUND;
  shr.u64 %rd7, %rd7, 8;
  add.u64 %rd6, %rd6, 1;
  sub.u32 %r1, %r1, 1;
  setp.ne.u32 %p1, %r1, 0;
  @%p1 bra TAIL;
WORDS:
  setp.ge.u64 %p1, %rd4, %rd2;
  @%p1 bra DONE;
  mul.lo.u64 %rd7, %rd4, 0x9E3779B97F4A7C15;
  add.u64 %rd7, %rd7, %rd3;
  shl.b64 %rd6, %rd4, 3;
  add.u64 %rd6, %rd6, %rd1;
  ld.global.u64 %rd8, [%rd6];
  setp.ne.u64 %p1, %rd8, %rd7;
  @%p1 bra FOUND;
  add.u64 %rd4, %rd4, %rd5;
  bra WORDS;
FOUND:
  ld.param.u64 %rd10, [p_report];
  ld.param.u64 %rd11, [p_serial];
  cvta.to.global.u64 %rd10, %rd10;
  and.b64 %rd12, %rd11, 4095;
  shl.b64 %rd12, %rd12, 3;
  add.u64 %rd12, %rd12, %rd10;
  atom.global.exch.b64 %rd13, [%rd12+64], %rd11;
  setp.eq.u64 %p1, %rd13, %rd11;
  @%p1 bra DONE;
  atom.global.add.u64 %rd13, [%rd10], 1;
  mov.u64 %rd14, 0;
  mov.u64 %rd15, 1;
  atom.global.cas.b64 %rd13, [%rd10+8], %rd14, %rd15;
  setp.ne.u64 %p1, %rd13, 0;
  @%p1 bra DONE;
  ld.param.u64 %rd16, [p_work];
  ld.param.u64 %rd17, [p_address];
  ld.param.u64 %rd18, [p_bytes];
  ld.param.u64 %rd19, [p_seed];
  st.global.u64 [%rd10+16], %rd16;
  st.global.u64 [%rd10+24], %rd17;
  st.global.u64 [%rd10+32], %rd18;
  st.global.u64 [%rd10+40], %rd19;
DONE:
  ret;
}

.visible .entry tidemark_spin(.param .u64 p_ns)
{
  .reg .pred %p<2>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [p_ns];
  mov.u64 %rd2, %globaltimer;
AGAIN:
  mov.u64 %rd3, %globaltimer;
  sub.u64 %rd4, %rd3, %rd2;
  setp.lt.u64 %p1, %rd4, %rd1;
  @%p1 bra AGAIN;
  ret;
}
)";

}  // namespace

const char* kernel_text() {
  return kText;
}

Code Kernels::find_functions() {
  if (const Code code = driver_.module_function(&fill_, module_, kFillName); code != kSuccess) return code;
  if (const Code code = driver_.module_function(&check_, module_, kCheckName); code != kSuccess) return code;
  return driver_.module_function(&spin_, module_, kSpinName);
}

Code Kernels::load() {
  Code code = driver_.module_load(&module_, kText);
  if (code != kSuccess) return code;
  code = find_functions();
  if (code == kSuccess) code = driver_.allocate(&report_, kReportBytes);
  if (code == kSuccess) code = driver_.fill_now(report_, 0, kReportBytes);
  if (code != kSuccess) unload();
  return code;
}

void Kernels::unload() {
  if (report_ != 0) driver_.free(report_);
  if (module_ != nullptr) driver_.module_unload(module_);
  report_ = 0;
  module_ = nullptr;
}

Code Kernels::launch(Function function, Stream stream, std::uint64_t words, void** parameters) {
  const std::uint64_t blocks = std::clamp<std::uint64_t>((words + kThreads - 1) / kThreads, 1, kBlocks);
  return driver_.launch_kernel(function, static_cast<unsigned>(blocks), 1, 1, kThreads, 1, 1, 0, stream, parameters,
                               nullptr);
}

Code Kernels::fill(Stream stream, const Touch& touch) {
  std::uint64_t address = touch.address, words = static_cast<std::uint64_t>(touch.bytes) / 8;
  std::uint64_t first = pattern_word(touch.seed, static_cast<std::uint64_t>(touch.place / 8));
  auto tail = static_cast<std::uint32_t>(touch.bytes % 8);
  void* parameters[] = {&address, &words, &first, &tail};
  return launch(fill_, stream, words, parameters);
}

Code Kernels::check(Stream stream, const Touch& touch, std::int64_t work_id) {
  std::uint64_t address = touch.address, words = static_cast<std::uint64_t>(touch.bytes) / 8;
  std::uint64_t first = pattern_word(touch.seed, static_cast<std::uint64_t>(touch.place / 8)), report = report_,
                serial = ++serial_, seed = touch.seed;
  auto tail = static_cast<std::uint32_t>(touch.bytes % 8);
  Bytes bytes = touch.bytes;
  void* parameters[] = {&address, &words, &first, &tail, &report, &serial, &work_id, &bytes, &seed};
  return launch(check_, stream, words, parameters);
}

Code Kernels::spin(Stream stream, std::int64_t duration_ns) {
  void* parameters[] = {&duration_ns};
  return driver_.launch_kernel(spin_, 1, 1, 1, 1, 1, 1, 0, stream, parameters, nullptr);
}

Code Kernels::read(Report& report) {
  return driver_.copy_to_host_now(&report, report_, sizeof report);
}

}  // namespace tidemark::cuda
