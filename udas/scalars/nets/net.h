/* What margins and contributions of nets share: the activations and the limits. */
#ifndef TUSK_NETS_NET_H
#define TUSK_NETS_NET_H

#include "tables.h"

enum { TUSK_RELU, TUSK_TANH, TUSK_GELU, TUSK_ACTIVATIONS };
#define TUSK_NET_MOST_LAYERS 9

static inline int tusk_net_activation(const tusk_weight *coef) {
    return (int)coef[TUSK_NET_KIND] % TUSK_NET_EMBEDS;
}

#endif
