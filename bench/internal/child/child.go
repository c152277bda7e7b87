// Package child runs a bench's own program a second time, as the other side of the
// measurement: a process with separate CPU time and memory.
package child

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
)

// Process is such a process. It serves at Address until it is closed, or this process ends.
type Process struct {
	Address string
	PID     int
	cmd     *exec.Cmd
	stdin   io.Closer
}

// Start runs the program with one argument, with which it must print its address and serve
// until its standard input ends.
func Start(ctx context.Context, mode string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self, mode)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	address, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", mode, err), cmd.Process.Kill(), cmd.Wait())
	}
	return &Process{Address: strings.TrimSpace(address), PID: cmd.Process.Pid, cmd: cmd, stdin: stdin}, nil
}

// Close ends the process and waits for it.
func (p *Process) Close() error { return errors.Join(p.stdin.Close(), p.cmd.Wait()) }

// While returns a context that ends when in, which the other process holds open, ends.
func While(ctx context.Context, in io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, in) // waits for the end
		cancel()
	}()
	return ctx, cancel
}

// Serve implements the process: it prints the address on which it listens, and serves there
// until in ends. serve returns when its context ends.
func Serve(ctx context.Context, in io.Reader, out io.Writer, serve func(context.Context, net.Listener) error) error {
	ctx, cancel := While(ctx, in)
	defer cancel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Fprintln(out, l.Addr())
	return serve(ctx, l)
}
