//go:build failpoints || verify

// Package failpoint marks the steps at which tests kill the program.
package failpoint

import (
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
)

// Environment variables: the number of the step to die at, from 1, and a file
// to which each step is written when it is reached.
const (
	Variable    = "MESHTRIAL_FAILPOINT"
	LogVariable = "MESHTRIAL_FAILPOINTS"
)

var count atomic.Int64

// Reach marks a step: what has just been done, and to which object. If it is
// the selected step, the process kills itself, as kill -9 does.
func Reach(step string, of ...any) {
	n := count.Add(1)
	if file := os.Getenv(LogVariable); file != "" {
		if f, err := os.OpenFile(file, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600); err == nil {
			fmt.Fprintf(f, "%d %s %s\n", n, step, fmt.Sprint(of...))
			f.Close()
		}
	}
	if at, err := strconv.ParseInt(os.Getenv(Variable), 10, 64); err == nil && at == n {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}
