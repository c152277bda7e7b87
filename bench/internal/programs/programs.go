// Package programs starts the programs that benches compare meshtrial with, and
// measures their CPU use.
package programs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/meshtrial/meshtrial/drive/load"
)

// Find looks for a program in PATH and where the Go tool installs; "" if it is
// not found.
func Find(name string) string {
	if path, err := exec.LookPath(name); err == nil {
		return path
	}
	home, _ := os.UserHomeDir()
	for _, dir := range []string{"/usr/sbin", filepath.Join(home, "go", "bin"), filepath.Join(os.Getenv("GOPATH"), "bin")} {
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path
		}
	}
	return ""
}

// Pin returns the command that runs the following one on one core.
func Pin(cpu int) []string { return []string{"taskset", "-c", strconv.Itoa(cpu)} }

// Pinned returns a command that runs on one core and ends with this process.
func Pinned(ctx context.Context, cpu int, program string, args ...string) *exec.Cmd {
	command := slices.Concat(Pin(cpu), []string{program}, args)
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// FreeAddress returns a loopback address that nothing listens on.
func FreeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

const nginxConf = `worker_processes 1;
daemon off;
pid %[1]s/nginx.pid;
error_log %[1]s/error.log;
events { worker_connections 4096; }
http {
	access_log off;
	keepalive_requests 1000000000;
	keepalive_timeout 3600;
	client_body_temp_path %[1]s/body;
	proxy_temp_path %[1]s/proxy;
	fastcgi_temp_path %[1]s/fastcgi;
	uwsgi_temp_path %[1]s/uwsgi;
	scgi_temp_path %[1]s/scgi;
	server { listen %[2]s; location / { return 200 "hello\n"; } }
}
`

// startTime is how long a server may take until it answers.
const startTime = 5 * time.Second

// Server is a program that answers requests.
type Server struct {
	URL string
	cmd *exec.Cmd
}

// Serve starts a server on one core and waits up to five seconds until it answers
// at url. If it does not, or the context ends, nothing of it remains.
func Serve(ctx context.Context, url string, cpu int, program string, args ...string) (*Server, error) {
	s := &Server{URL: url, cmd: Pinned(ctx, cpu, program, args...)}
	s.cmd.Stderr = os.Stderr
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", program, err)
	}
	err := s.answers(ctx)
	if err != nil {
		s.Stop()
		return nil, fmt.Errorf("%s does not answer at %s: %w", program, url, err)
	}
	return s, nil
}

// answers waits until the server answers.
func (s *Server) answers(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
	if err != nil {
		return err
	}
	for {
		response, err := http.DefaultClient.Do(request)
		if err == nil {
			err = response.Body.Close()
		}
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(ctx.Err(), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Nginx starts the nginx at path with one worker and a response of six bytes. Its
// files are in dir.
func Nginx(ctx context.Context, path, dir string, cpu int) (*Server, error) {
	address, err := FreeAddress()
	if err != nil {
		return nil, err
	}
	conf := filepath.Join(dir, "nginx.conf")
	if err := os.WriteFile(conf, fmt.Appendf(nil, nginxConf, dir, address), 0o644); err != nil {
		return nil, err
	}
	return Serve(ctx, "http://"+address+"/", cpu, path, "-c", conf)
}

// PID returns the server's process ID.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Stop ends the server and waits for it.
func (s *Server) Stop() {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	var exit *exec.ExitError
	if err := s.cmd.Wait(); err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(os.Stderr, err)
	}
}

// Load sends requests to a server by `meshtrial load` (program) with args, on one
// core and over 16 connections unless args say otherwise. It returns its report and
// its CPU time in seconds. It is an error if no request was answered or one failed,
// but not if the figures are doubtful.
func Load(ctx context.Context, program string, cpu int, url string, each time.Duration, args ...string) (report load.Report, used float64, err error) {
	client := Pinned(ctx, cpu, program, append([]string{"load", url, "--json", "--connections", "16", "--duration", each.String()}, args...)...)
	var stderr bytes.Buffer
	client.Stderr = &stderr
	out, runErr := client.Output() // the exit code may only mean that figures are doubtful
	if json.Unmarshal(out, &report) != nil || report.Completed == 0 || len(report.Failed) > 0 {
		return load.Report{}, 0, errors.Join(fmt.Errorf("load on %s: %d answered, failed: %v\n%s", url, report.Completed, report.Failed, &stderr), runErr)
	}
	return report, CPU(client), nil
}

// CPU returns the CPU time of a program that has ended, in seconds.
func CPU(ended *exec.Cmd) float64 {
	return (ended.ProcessState.UserTime() + ended.ProcessState.SystemTime()).Seconds()
}
