// Package podstate says why pods do not become ready, and whether waiting for them can
// still help. It takes pods, events and conditions as values and returns problems with a
// code; it reads no cluster and no clock. [Find] names the problem of each pod, [Memory]
// keeps how long each has lasted and decides which of them end a wait.
package podstate
