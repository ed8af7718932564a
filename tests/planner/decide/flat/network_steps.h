#pragma once
// Steps of training shaped as real networks are: chains, long skips, residual blocks and attention, forward and
// backward, with bytes and costs by closed form. Deterministic.

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/planner/decide/flat/reference_step.h"

namespace tidemark::testing {

/// What an op's gradient reads besides the gradient of what it makes.
enum class Saves : std::uint8_t {
  nothing,  ///< addition, concatenation, upsampling, mean
  input,    ///< convolution, linear, normalisation, GELU, products of activations
  output,   ///< ReLU, softmax
  both,     ///< convolution with a ReLU, largest of a window
};

/// The forward pass, op by op; and the step that trains it.
class NetworkSteps {
 public:
  struct Layer {
    std::string name;
    std::vector<std::int32_t> from;
    std::int64_t elements = 0;  ///< of what it makes
    std::int64_t cost = 0;      ///< multiply-adds, or elements looked at
    std::int64_t back = 1;      ///< times the cost, of its gradient
    Saves saves = Saves::nothing;
  };

  /// Its number.
  std::int32_t add(Layer layer) {
    layers_.push_back(std::move(layer));
    return static_cast<std::int32_t>(layers_.size()) - 1;
  }
  [[nodiscard]] const Layer& operator[](std::int32_t layer) const { return layers_[static_cast<std::size_t>(layer)]; }

  /// Layers in order, the loss, and the gradient of what every layer makes, in reverse: of the gradients of all that
  /// read it and of what those save.
  [[nodiscard]] ReferenceStep step(std::string name) const {
    const auto count = static_cast<std::int32_t>(layers_.size());
    ReferenceStep step{.name = std::move(name)};
    std::vector<std::vector<std::int32_t>> readers(layers_.size());
    const auto op = [&](std::string of, OpPhase phase, std::int64_t cost, std::int64_t elements,
                        std::vector<std::int32_t> reads) {
      std::ranges::sort(reads);
      reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
      const auto number = static_cast<std::int32_t>(step.ops.size());
      step.storages.push_back({.name = of, .bytes = kElementBytes * elements});
      step.ops.push_back(
          {.name = std::move(of), .cost = cost, .phase = phase, .reads = std::move(reads), .writes = {number}});
    };
    for (std::int32_t v = 0; v < count; ++v) {
      const Layer& layer = (*this)[v];
      op(layer.name, OpPhase::forward, layer.cost, layer.elements, layer.from);
      for (const std::int32_t r : layer.from) readers[static_cast<std::size_t>(r)].push_back(v);
    }
    op("loss", OpPhase::forward, 0, 1, {count - 1});
    for (std::int32_t v = count - 1; v >= 0; --v) {
      std::vector<std::int32_t> reads;
      std::int64_t cost = 0;
      if (v == count - 1) reads = {v, count};
      for (const std::int32_t reader : readers[static_cast<std::size_t>(v)]) {
        const Layer& layer = (*this)[reader];
        reads.push_back(2 * count - reader);
        if (layer.saves == Saves::input || layer.saves == Saves::both)
          reads.insert(reads.end(), layer.from.begin(), layer.from.end());
        if (layer.saves == Saves::output || layer.saves == Saves::both) reads.push_back(reader);
        cost += layer.back * layer.cost / static_cast<std::int64_t>(layer.from.size());
      }
      op("grad_" + (*this)[v].name, OpPhase::backward, cost, (*this)[v].elements, std::move(reads));
    }
    return step;
  }

 private:
  static constexpr Bytes kElementBytes = 4;
  std::vector<Layer> layers_;
};

/// Images: square, of so many channels.
class ImageNetwork {
 public:
  NetworkSteps steps;
  std::int32_t last = -1;

  explicit ImageNetwork(std::int64_t side) : side_(side) {}

  /// 3 x 3 with a ReLU. `halves`: every other place.
  std::int32_t conv(std::int64_t channels, std::int64_t window = 3, bool halves = false, bool relu = true) {
    const std::int64_t before = last < 0 ? 3 : channels_;
    if (halves) side_ /= 2;
    channels_ = channels;
    return put("conv", {last}, window * window * before * elements(), 2, relu ? Saves::both : Saves::input);
  }
  std::int32_t pool() {
    side_ /= 2;
    return put("pool", {last}, 4 * elements(), 1, Saves::both);
  }
  std::int32_t up(std::int64_t factor = 2) {
    side_ *= factor;
    return put("up", {last}, elements(), 1, Saves::nothing);
  }
  std::int32_t concat(std::int32_t other, std::int64_t channels) {
    channels_ += channels;
    return put("concat", {other, last}, elements(), 1, Saves::nothing);
  }
  std::int32_t sum(std::int32_t other) { return put("add", {other, last}, 2 * elements(), 1, Saves::output); }
  std::int32_t linear(std::int64_t width) {
    const std::int64_t before = elements();
    side_ = 1;
    channels_ = width;
    return put("linear", {last}, before * width, 2, Saves::input);
  }
  std::int32_t mean() {
    const std::int64_t cost = elements();
    side_ = 1;
    return put("mean", {last}, cost, 1, Saves::nothing);
  }
  [[nodiscard]] std::int64_t channels() const { return channels_; }
  [[nodiscard]] std::int64_t side() const { return side_; }
  /// Goes on from an earlier layer.
  void go_to(std::int32_t layer, std::int64_t side, std::int64_t channels) {
    last = layer;
    side_ = side;
    channels_ = channels;
  }

 private:
  [[nodiscard]] std::int64_t elements() const { return side_ * side_ * channels_; }
  std::int32_t put(const char* name, std::vector<std::int32_t> from, std::int64_t cost, std::int64_t back,
                   Saves saves) {
    std::erase(from, -1);
    std::ranges::sort(from);
    last = steps.add({.name = name + std::to_string(++count_),
                      .from = std::move(from),
                      .elements = elements(),
                      .cost = cost,
                      .back = back,
                      .saves = saves});
    return last;
  }

  std::int64_t side_, channels_ = 3;
  int count_ = 0;
};

/// Simonyan and Zisserman 2015: blocks of convolutions, then three linear layers.
inline ReferenceStep vgg_step(std::string name, const std::vector<int>& convolutions) {
  ImageNetwork net(224);
  std::int64_t channels = 64;
  for (const int count : convolutions) {
    for (int i = 0; i < count; ++i) net.conv(channels);
    net.pool();
    channels = std::min<std::int64_t>(512, 2 * channels);
  }
  for (const std::int64_t width : {4096, 4096, 1000}) net.linear(width);
  return net.steps.step(std::move(name));
}

/// Ronneberger et al. 2015: what every level made on the way down is read once more on the way up.
inline ReferenceStep unet_step(int levels) {
  ImageNetwork net(256);
  std::vector<std::int32_t> skips;
  std::int64_t channels = 64;
  for (int level = 0; level < levels; ++level, channels *= 2) {
    net.conv(channels);
    skips.push_back(net.conv(channels));
    net.pool();
  }
  net.conv(channels);
  net.conv(channels);
  while (!skips.empty()) {
    channels /= 2;
    net.up();
    net.conv(channels);
    net.concat(skips.back(), channels);
    skips.pop_back();
    net.conv(channels);
    net.conv(channels);
  }
  net.conv(2, 1, false, false);
  return net.steps.step("unet" + std::to_string(levels));
}

/// Badrinarayanan et al. 2017: down and up again, level by level; going up reads where the largest were.
inline ReferenceStep segnet_step(std::string name, const std::vector<int>& convolutions) {
  ImageNetwork net(224);
  std::int64_t channels = 64;
  std::vector<std::int64_t> widths;
  for (const int count : convolutions) {
    for (int i = 0; i < count; ++i) net.conv(channels);
    widths.push_back(channels);
    net.pool();
    channels = std::min<std::int64_t>(512, 2 * channels);
  }
  for (std::size_t level = convolutions.size(); level-- > 0;) {
    net.up();
    for (int i = 0; i < convolutions[level]; ++i)
      net.conv(i + 1 < convolutions[level] || level == 0 ? widths[level] : widths[level - 1]);
  }
  net.conv(12, 1, false, false);
  return net.steps.step(std::move(name));
}

/// Long et al. 2015: scores at three depths, brought to one size and added.
inline ReferenceStep fcn_step() {
  ImageNetwork net(224);
  std::int64_t channels = 64;
  std::vector<std::int32_t> pools;
  for (const int count : {2, 2, 3, 3, 3}) {
    for (int i = 0; i < count; ++i) net.conv(channels);
    pools.push_back(net.pool());
    channels = std::min<std::int64_t>(512, 2 * channels);
  }
  net.conv(4096, 7);
  net.conv(4096, 1);
  net.conv(21, 1, false, false);
  std::int64_t side = net.side();
  for (const std::size_t depth : {3U, 2U}) {
    const std::int32_t coarse = net.up();
    side *= 2;
    net.go_to(pools[depth], side, depth == 3 ? 512 : 256);
    net.conv(21, 1, false, false);
    net.sum(coarse);
  }
  net.up(8);
  return net.steps.step("fcn8");
}

/// He et al. 2016, of 18 layers: normalisation folded into convolutions.
inline ReferenceStep resnet18_step() {
  ImageNetwork net(224);
  net.conv(64, 7, true);
  net.pool();
  for (const std::int64_t channels : {64, 128, 256, 512})
    for (int block = 0; block < 2; ++block) {
      const std::int32_t input = net.last;
      const std::int64_t side = net.side(), before = net.channels();
      const bool halves = before != channels;
      net.conv(channels, 3, halves);
      const std::int32_t made = net.conv(channels, 3, false, false);
      if (!halves) {
        net.sum(input);
        continue;
      }
      net.go_to(input, side, before);
      net.conv(channels, 1, true, false);
      net.sum(made);
    }
  net.mean();
  net.linear(1000);
  return net.steps.step("resnet18");
}

/// Vaswani et al. 2017, normalisation first: attention whose weights are storages of their own.
inline ReferenceStep transformer_step(int blocks) {
  constexpr std::int64_t kTokens = 512, kWidth = 512, kHeads = 8, kWords = 8192;
  NetworkSteps net;
  int count = 0;
  const auto add = [&](const char* name, std::vector<std::int32_t> from, std::int64_t elements, std::int64_t cost,
                       std::int64_t back, Saves saves) {
    return net.add({.name = name + std::to_string(++count),
                    .from = std::move(from),
                    .elements = elements,
                    .cost = cost,
                    .back = back,
                    .saves = saves});
  };
  constexpr std::int64_t kRow = kTokens * kWidth, kScores = kHeads * kTokens * kTokens;
  std::int32_t x = add("embed", {}, kRow, kRow, 1, Saves::nothing);
  for (int block = 0; block < blocks; ++block) {
    const std::int32_t normed = add("norm", {x}, kRow, 4 * kRow, 1, Saves::input);
    const std::int32_t qkv = add("qkv", {normed}, 3 * kRow, 3 * kRow * kWidth, 2, Saves::input);
    const std::int32_t scores = add("scores", {qkv}, kScores, kTokens * kRow, 2, Saves::input);
    const std::int32_t weights = add("softmax", {scores}, kScores, 4 * kScores, 1, Saves::output);
    const std::int32_t context = add("context", {qkv, weights}, kRow, kTokens * kRow, 2, Saves::input);
    const std::int32_t projected = add("project", {context}, kRow, kRow * kWidth, 2, Saves::input);
    const std::int32_t middle = add("add", {x, projected}, kRow, kRow, 1, Saves::nothing);
    const std::int32_t again = add("norm", {middle}, kRow, 4 * kRow, 1, Saves::input);
    const std::int32_t wide = add("linear", {again}, 4 * kRow, 4 * kRow * kWidth, 2, Saves::input);
    const std::int32_t gelu = add("gelu", {wide}, 4 * kRow, 16 * kRow, 1, Saves::input);
    const std::int32_t narrow = add("linear", {gelu}, kRow, 4 * kRow * kWidth, 2, Saves::input);
    x = add("add", {middle, narrow}, kRow, kRow, 1, Saves::nothing);
  }
  const std::int32_t last = add("norm", {x}, kRow, 4 * kRow, 1, Saves::input);
  add("logits", {last}, kTokens * kWords, kRow * kWords, 2, Saves::input);
  return net.step("transformer" + std::to_string(blocks));
}

/// Of up to 60 ops, and of up to 100.
inline std::vector<ReferenceStep> small_networks() {
  return {vgg_step("vgg16", {2, 2, 3, 3, 3}),
          vgg_step("vgg19", {2, 2, 4, 4, 4}),
          unet_step(3),
          segnet_step("segnet_small", {2, 2, 3}),
          fcn_step(),
          transformer_step(2)};
}
inline std::vector<ReferenceStep> middle_networks() {
  return {resnet18_step(), unet_step(4), segnet_step("segnet", {2, 2, 3, 3, 3}), transformer_step(3)};
}

}  // namespace tidemark::testing
