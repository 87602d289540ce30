// Draws rows by the size of their gradients.
#include "../sample.hpp"

#include <algorithm>
#include <cmath>
#include <functional>

#include "../sampling.hpp"

namespace tusk {
namespace {

int64_t share_of(int64_t n, double share) {
    return std::max<int64_t>((int64_t)((double)n * share), 1);
}

// The k-th number in an order.
template <class T, class Order> T bound_of(std::vector<T> numbers, int64_t k, Order order) {
    std::nth_element(numbers.begin(), numbers.begin() + (k - 1), numbers.end(), order);
    return numbers[k - 1];
}

} // namespace

double most_factor(OneSide rates, int64_t n) {
    return (double)n / (double)share_of(n, rates.other);
}

Drawn draw_one_side(const std::vector<double> &size, const std::vector<uint64_t> &keys,
                    OneSide rates, uint64_t seed, uint32_t *out) {
    auto n = (int64_t)size.size();
    double least = bound_of(size, share_of(n, rates.top), std::greater<>());
    std::vector<uint64_t> chances; // random numbers of the other rows, of which the lowest are
                                   // drawn
    for (int64_t i = 0; i < n; i++)
        if (size[i] < least)
            chances.push_back(mixed(keys[i] ^ seed));
    auto others = (int64_t)chances.size(), wanted = std::min(others, share_of(n, rates.other));
    uint64_t last = others ? bound_of(std::move(chances), wanted, std::less<>()) : 0;
    Drawn drawn{0, 1, std::vector<uint8_t>(n)};
    int64_t taken = 0;
    for (int64_t i = 0; i < n; i++) {
        bool other = size[i] < least;
        if (other && mixed(keys[i] ^ seed) > last)
            continue;
        drawn.others[i] = other;
        taken += other;
        out[drawn.n++] = (uint32_t)i;
    }
    if (taken)
        drawn.factor = (double)others / (double)taken;
    return drawn;
}

void amplify(const Drawn &drawn, const uint32_t *which, Addend *addends) {
    for (int64_t i = 0; i < drawn.n; i++) {
        if (!drawn.others[which[i]])
            continue;
        Addend &a = addends[which[i]];
        a = addend(std::llround((double)gradient_of(a) * drawn.factor),
                   std::llround((double)curvature_of(a) * drawn.factor));
    }
}

} // namespace tusk
