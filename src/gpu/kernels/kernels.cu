/* All kernels. Compiled by NVRTC into images that the extension embeds, and for the host into the
 * driver that stands in for a real one in the tests: the text is the same. */
#include "allreduce.h"
#include "transfer.h"

KERNEL(allreduce_pair_f32, AllReduceArgs) { allreduce(&a, 2, F32); }
KERNEL(allreduce_pair_f16, AllReduceArgs) { allreduce(&a, 2, F16); }
KERNEL(allreduce_pair_bf16, AllReduceArgs) { allreduce(&a, 2, BF16); }

KERNEL(allreduce_group_f32, AllReduceArgs) { allreduce(&a, a.ranks, F32); }
KERNEL(allreduce_group_f16, AllReduceArgs) { allreduce(&a, a.ranks, F16); }
KERNEL(allreduce_group_bf16, AllReduceArgs) { allreduce(&a, a.ranks, BF16); }

KERNEL(copy, CopyArgs) { copy_words(&a); }
KERNEL(read, CopyArgs) { read_words(&a); }
KERNEL(chase, ChaseArgs) { chase_words(&a); }
KERNEL(spin, SpinArgs) { hold(&a); }
KERNEL_WITHOUT_ARGS(empty) {}
