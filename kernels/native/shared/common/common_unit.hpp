// The unit in which weights are whole numbers.
#pragma once

#include <algorithm>
#include <cmath>

namespace tusk {

// The greatest common divisor of the numbers added so far, up to rounding. Each number is at most
// 2^20 times the divisor, or there is none. The result does not depend on the order of the
// numbers; numbers <= 0 are ignored. Sums of weights in this unit are exact, so that they have the
// same bits in every unit that a caller uses.
class CommonUnit {
public:
    void add(double number) {
        if (none_ || !(number > 0))
            return;
        most_ = std::max(most_, number);
        double near = most_ * 0x1p-45, a = unit_ > 0 ? unit_ : number, b = number;
        while (b > near) { // Euclid's algorithm
            double rest = std::abs(std::remainder(a, b));
            a = b, b = rest;
        }
        unit_ = a;
        none_ = !(unit_ >= most_ * 0x1p-20);
    }
    double value() const { // 0: there is none
        if (none_)
            return 0;
        return most_ > 0 ? most_ / std::nearbyint(most_ / unit_) : 1;
    }

private:
    double unit_ = 0, most_ = 0;
    bool none_ = false;
};

} // namespace tusk
