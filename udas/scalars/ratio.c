#include "ratio.h"

#include <math.h>

#include "models/kinds.h"

double tusk_ratio(tusk_text task, double estimate) {
    const tusk_task_row *known = tusk_task_named(task);
    bool logarithmic = known && (known->response == TUSK_EXP || known->kind == TUSK_LOGISTIC ||
                                 known->kind == TUSK_ORDINAL);
    return logarithmic && known->test != TUSK_UNTESTED ? exp(estimate) : NAN;
}
