/* exp without a call or a branch, so that loops over it are vectorized. */
#ifndef TUSK_EXPONENTIAL_H
#define TUSK_EXPONENTIAL_H

#include <stdint.h>
#include <string.h>

/* 2^k for an integral k in [-1022, 1023]: k + 1023 is the exponent field, and adding 2^52 + 1023
 * to k leaves that integer in the lowest bits of the sum. */
static inline double tusk_power_of_two(double k) {
    double shifted = k + (0x1p52 + 1023), power;
    uint64_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    bits <<= 52;
    memcpy(&power, &bits, sizeof power);
    return power;
}

/* exp(x) for x <= 0, to 2 units in the last place, without a branch so that loops over it are
 * vectorized. x = k ln 2 + r with |r| <= ln 2 / 2, and exp(x) = 2^k exp(r). The omitted Taylor
 * terms are below r^14 / 14! < 5e-18. Splitting ln 2 in two parts keeps r exact; splitting 2^k
 * in two factors reaches the denormal numbers. */
static inline double tusk_exp_of_negative(double x) {
    x = x < -800 ? -800 : x;
    double k = x * 0x1.71547652b82fep+0 + 0x1.8p52 - 0x1.8p52; /* rounds to the nearest integer */
    double r = (x - k * 0x1.62e42fee00000p-1) - k * 0x1.a39ef35793c76p-33;
    double p = 1.0 / 6227020800;
    p = p * r + 1.0 / 479001600;
    p = p * r + 1.0 / 39916800;
    p = p * r + 1.0 / 3628800;
    p = p * r + 1.0 / 362880;
    p = p * r + 1.0 / 40320;
    p = p * r + 1.0 / 5040;
    p = p * r + 1.0 / 720;
    p = p * r + 1.0 / 120;
    p = p * r + 1.0 / 24;
    p = p * r + 1.0 / 6;
    p = p * r + 0.5;
    p = p * r + 1;
    p = p * r + 1;
    double half = k * 0.5 + 0x1.8p52 - 0x1.8p52;
    return p * tusk_power_of_two(half) * tusk_power_of_two(k - half);
}

#endif
