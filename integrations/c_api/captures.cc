#include "integrations/c_api/captures.h"

#include "integrations/c_api/allocator_group.h"

namespace tidemark::c_api {

Visit::Visit(std::shared_ptr<Pool> pool) : pool_(std::move(pool)) {
  if (pool_ != nullptr) ++pool_->visitors;
}

Visit::~Visit() {
  if (pool_ == nullptr) return;
  for (int seen = pool_->visitors; seen > 0 && !pool_->visitors.compare_exchange_weak(seen, seen - 1);) continue;
}

Visit Captures::pool_for(StreamHandle stream) const {
  if (!any()) return {};
  const std::shared_lock lock(mutex_);
  const Open* open = find(stream);
  return open == nullptr ? Visit() : Visit(open->pool);
}

}  // namespace tidemark::c_api
