#include "../any_type.h"

double v1_decimal(__int128 x, int scale, double power) {
    __int128 one = 1;
    v1_note();
    for (int i = 0; i < scale; i++)
        one *= 10;
    return from_hugeint(hugeint_of(x / one)) + from_hugeint(hugeint_of(x % one)) / power;
}
