#include "device/sim_world.h"

#include <mutex>
#include <utility>

#include "device/sim_engine.h"

namespace tidemark {

/// Defined with the device, in sim_device.cc.
std::unique_ptr<SimDevice> make_sim_device_in(std::shared_ptr<SimEngine> engine, const SimOptions& options);

SimHost::SimHost(std::shared_ptr<SimEngine> engine) : engine_(std::move(engine)) {
  const std::lock_guard lock(engine_->mutex);
  engine_->attach_host();
}

SimHost::~SimHost() {
  const std::lock_guard lock(engine_->mutex);
  engine_->detach_host();
}

SimWorld::SimWorld(const SimSchedule& schedule) : engine_(std::make_shared<SimEngine>(schedule)) {}
SimWorld::~SimWorld() = default;

std::unique_ptr<SimDevice> SimWorld::make_device(const SimOptions& options) {
  return make_sim_device_in(engine_, options);
}

std::unique_ptr<SimHost> SimWorld::attach_host() {
  return std::make_unique<SimHost>(engine_);
}

Status SimWorld::run() {
  std::unique_lock lock(engine_->mutex);
  const SimEngine::Outcome outcome = engine_->wait_for(lock, {.kind = SimEngine::Goal::Kind::everything}, -1);
  if (outcome == SimEngine::Outcome::deadlock) return infeasible(engine_->describe_blocked());
  return {};
}

std::int64_t SimWorld::now_ns() const {
  const std::lock_guard lock(engine_->mutex);
  return engine_->now_ns();
}

std::unique_ptr<SimDevice> make_sim_device(const SimOptions& options, const SimSchedule& schedule) {
  return SimWorld(schedule).make_device(options);
}

}  // namespace tidemark
