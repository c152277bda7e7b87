// Package child runs a bench's own program a second time, as the other side of the
// measurement: a process with separate CPU time and memory.
package child

import (
	"bufio"
	"context"
	"encoding/json"
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
	In      io.WriteCloser // its standard input
	Out     *bufio.Reader  // its standard output, after the address
	cmd     *exec.Cmd
}

// Start runs the program with a role as its only argument. The process reads order as JSON from
// its standard input (nothing if it is nil), prints its address on a line, and serves until its
// input ends. wrap is a command that runs it, such as taskset.
func Start(ctx context.Context, role string, order any, wrap ...string) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	command := append(wrap[:len(wrap):len(wrap)], self, role)
	p := &Process{cmd: exec.CommandContext(ctx, command[0], command[1:]...)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = os.Stderr
	if p.In, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.PID, p.Out = p.cmd.Process.Pid, bufio.NewReader(out)
	if order != nil {
		err = json.NewEncoder(p.In).Encode(order)
	}
	if err == nil {
		p.Address, err = p.Out.ReadString('\n')
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", role, err), p.cmd.Process.Kill(), p.cmd.Wait())
	}
	p.Address = strings.TrimSpace(p.Address)
	return p, nil
}

// Close ends the process and waits for it.
func (p *Process) Close() error {
	err := p.In.Close()
	if errors.Is(err, os.ErrClosed) {
		err = nil
	}
	_, _ = io.Copy(io.Discard, p.Out) // or it may wait for a reader
	return errors.Join(err, p.cmd.Wait())
}

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
