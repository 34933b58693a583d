// Turns of the warpgroups that multiply, in a circle, by barriers of the hardware from number kTurn on.
// Order knob kTurns; without it there are none. Needs mbarrier.cuh, kGroups and kTurn.
__device__ __forceinline__ void take_turn(int group) {
  if (kTurns) threads_sync(kTurn + group, 256);
}
__device__ __forceinline__ void pass_turn(int group) {
  if (kTurns) threads_arrive(kTurn + (group + 1) % kGroups, 256);
}
// The first turn is group 0's.
__device__ __forceinline__ void open_turns(int group) {
  if (kTurns && group == kGroups - 1) threads_arrive(kTurn, 256);
}
