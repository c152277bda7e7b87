// Package podstate says why pods do not become ready, and whether waiting longer can
// help. It takes pods, events and conditions as values and returns problems with a code;
// it accesses neither cluster nor clock. [Find] identifies the problem of each pod.
// [Memory] tracks how long each has lasted and decides which of them end a wait.
package podstate
