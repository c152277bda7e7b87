package local

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// initProcess is the lab's init as Up sees it.
type initProcess struct {
	process *os.Process
	control *os.File
	gone    chan struct{} // closed when it has ended
}

func (p *initProcess) send(name string) error {
	data, _ := json.Marshal(event{Event: name})
	_, err := p.control.Write(append(data, '\n'))
	return err
}

// kill ends init, and with it everything in the lab.
func (p *initProcess) kill() {
	p.process.Kill()
	<-p.gone
}

// controlPair is the connection between Up and init. Up's end does not block, so that it
// has deadlines.
func controlPair() (ours, theirs *os.File, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	err = unix.SetNonblock(fds[0], true)
	ours, theirs = os.NewFile(uintptr(fds[0]), "control"), os.NewFile(uintptr(fds[1]), "control of init")
	if err != nil {
		ours.Close()
		theirs.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// startInit starts init in its namespaces, and gives it its cgroup and its link.
func (u *starter) startInit(s *spec, groups cgroups, lock, storeLock *os.File) (*initProcess, error) {
	ours, theirs, err := controlPair()
	if err != nil {
		return nil, err
	}
	defer theirs.Close()
	log, err := os.OpenFile(s.Dir.log("init"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer log.Close()
	hostNet, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		ours.Close()
		return nil, err
	}
	defer hostNet.Close()
	cmd := exec.Command(u.o.Program, "lab-init", s.Dir.spec())
	cmd.Dir, cmd.Env = "/", initEnv()
	cmd.Stdout, cmd.Stderr = log, log
	cmd.ExtraFiles = []*os.File{theirs, lock, storeLock, hostNet} // fdControl, fdLabLock, fdStoreLock, fdHostNet
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid:     true,
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWUTS | unix.CLONE_NEWIPC,
	}
	if err := cmd.Start(); err != nil {
		ours.Close()
		return nil, fmt.Errorf("start the lab's init: %w", err)
	}
	in := &initProcess{process: cmd.Process, control: ours, gone: make(chan struct{})}
	go func() { cmd.Wait(); close(in.gone) }() // ends with init, or with this program
	pid := cmd.Process.Pid
	err = func() error {
		u.record.InitPID, u.record.InitStart = pid, startTicks(pid)
		if err := u.paths.writeRecord(u.record); err != nil {
			return err
		}
		if err := groups.join(u.record.Cgroup, pid); err != nil {
			return err
		}
		if err := linkHost(u.record, pid); err != nil {
			return err
		}
		return in.send(eventGo)
	}()
	if err != nil {
		in.kill()
		ours.Close()
		return nil, err
	}
	return in, nil
}

// initEnv is init's environment: what finds programs, and the host's way to
// registries.
func initEnv() []string {
	env := []string{"PATH=" + os.Getenv("PATH"), "HOME=/"}
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"} {
		for _, name := range []string{name, strings.ToLower(name)} {
			if value, ok := os.LookupEnv(name); ok {
				env = append(env, name+"="+value)
			}
		}
	}
	return env
}

// await follows init until everything is up. Once the API answers, it installs DNS and
// runs OnAPI while the node is still starting.
func (u *starter) await(ctx context.Context, l *Lab, in *initProcess) error {
	group, ctx := errgroup.WithContext(ctx)
	stop := context.AfterFunc(ctx, func() { in.control.SetReadDeadline(time.Now()) }) // ends follow
	defer stop()
	api := make(chan struct{})
	group.Go(func() error { return u.follow(ctx, in.control, api) })
	group.Go(func() error {
		select {
		case <-api:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		limited, cancel := context.WithTimeoutCause(ctx, 6*time.Minute, errors.New("not ready within six minutes"))
		defer cancel()
		installs, limited := errgroup.WithContext(limited)
		installs.Go(func() error { return u.installBasics(limited, l) })
		if u.o.OnAPI != nil {
			installs.Go(func() error { return u.o.OnAPI(limited, l) })
		}
		return installs.Wait()
	})
	return group.Wait()
}

// follow reads init's events until everything has been started, or ctx ends.
func (u *starter) follow(ctx context.Context, control *os.File, api chan struct{}) error {
	lines := bufio.NewReader(control)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil && ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err != nil {
			return errs.WithHint(fmt.Errorf("the lab's init ended before the lab was up (%w)", err), "see %s", u.failedLogs())
		}
		var e event
		if err := json.Unmarshal(line, &e); err != nil {
			return fmt.Errorf("the lab's init said %q: %w", line, err)
		}
		switch e.Event {
		case eventSay:
			u.say("%s", e.Text)
		case eventAPI:
			close(api)
		case eventFailed:
			return errs.WithHint(fmt.Errorf("the lab did not start: %s", e.Text), "logs are in %s", u.failedLogs())
		case eventUp:
			u.say("node components started")
			return nil
		}
	}
}

// failedLogs is where the logs of a start that failed are kept.
func (u *starter) failedLogs() string { return filepath.Join(u.paths.base, "failed") }

// keepLogs saves the components' logs before the lab's folder is removed.
func (u *starter) keepLogs() {
	if u.record == nil {
		return
	}
	dir := u.paths.dir(u.record.ID)
	os.RemoveAll(dir.join("log", "pods"))
	os.RemoveAll(u.failedLogs())
	os.Rename(dir.logs(), u.failedLogs())
	if len(u.record.Nodes) < 2 {
		return
	}
	os.Mkdir(filepath.Join(u.failedLogs(), "nodes"), 0o700)
	for _, n := range u.record.Nodes {
		logs := dir.nodeDir(n.Name).logs()
		os.RemoveAll(filepath.Join(logs, "pods"))
		os.Rename(logs, filepath.Join(u.failedLogs(), "nodes", n.Name))
	}
}
