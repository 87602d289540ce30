#include "ratio.h"

#include <math.h>
#include <string.h>

static const char *const LOGARITHMIC[] = {"logistic", "poisson", "negative_binomial", "gamma"};

double tusk_ratio(tusk_text task, double estimate) {
    for (size_t i = 0; task.data && i < sizeof LOGARITHMIC / sizeof *LOGARITHMIC; i++)
        if (strlen(LOGARITHMIC[i]) == task.length &&
            !memcmp(task.data, LOGARITHMIC[i], task.length))
            return exp(estimate);
    return NAN;
}
