package main

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/testing/must"
)

// shell returns a job that prints events from a shell.
func shell(name, script string) job {
	return job{name: name, command: []string{"sh", "-c", script}, events: name == ""}
}

// testRunner returns a runner with a program that ends labs by leaving a file.
func testRunner(t *testing.T, out *strings.Builder, left string) *runner {
	t.Helper()
	program := filepath.Join(t.TempDir(), "meshtrial")
	must.OK(t, os.WriteFile(program, []byte("#!/bin/sh\necho \"$@\" | tee -a $0.said > $XDG_STATE_HOME/meshtrial/lab/"+left+"\n"), 0o755))
	return &runner{out: &lines{out: out}, program: program, labs: t.TempDir(), env: os.Environ()}
}

func TestStage(t *testing.T) {
	const start = "mkdir -p $MESHTRIAL_TEST_LAB; "
	nice, err := exec.Command("nice").Output() // this test may itself be in a lane that yields
	must.OK(t, err)
	here, groups := strings.TrimSpace(string(nice)), exec.Command("sh", "-c", "echo 19 >/proc/self/autogroup")
	groups.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	gives := "test $(nice) -eq 19"
	if groups.Run() == nil { // the kernel groups processes, and lets us set the priority
		gives += " && grep -q 'nice 19' /proc/self/autogroup"
	}
	tests := []struct {
		name, left string
		lanes      []lane
		ok         bool
		want       []string
	}{
		{"events and steps", "lock", []lane{{name: "a", jobs: []job{shell("", "echo '"+strings.TrimSpace(ev("pass", "TestA"))+"'"), shell("page", "exit 0")}}, {name: "b"}},
			true, []string{"2 passed, 0 failed", "ok    page"}},
		{"a step that fails", "lock", []lane{{jobs: []job{shell("page", "echo why; exit 3")}}}, false, []string{"0 passed, 1 failed", "FAILED: page", "why", "exit status 3"}},
		{"a command that prints no events", "lock", []lane{{jobs: []job{shell("", "echo what; exit 2")}}}, false, []string{"1 failed", "what", "exit status 2"}},
		{"a command that fails without saying what", "lock", []lane{{jobs: []job{shell("", "exit 1")}}}, false, []string{"1 failed", "exit status 1"}},
		{"a later command that fails without saying what", "lock", []lane{{jobs: []job{shell("", "echo '"+strings.TrimSpace(ev("fail", "TestA"))+"'; exit 1"), shell("", "exit 1")}}}, false,
			[]string{"2 failed", "FAILED: sh -c exit 1"}},
		{"a step that is not run", "lock", []lane{{jobs: []job{shell("check", "echo trying; echo 'not run: cannot be had'"), shell("b", "true")}}}, true,
			[]string{"1 passed, 0 failed, 1 skipped", "check: cannot be had"}},
		{"a program that is not there", "lock", []lane{{jobs: []job{{name: "page", needs: "no-such-program", command: []string{"false"}}, shell("b", "true")}}}, true,
			[]string{"1 passed, 0 failed, 1 skipped", "page: no-such-program is not installed"}},
		{"a lab", "lock", []lane{{name: "one", lab: true, jobs: []job{shell("a", start+"exit 0")}}}, true, []string{"2 passed"}},
		{"a lab that leaves something", "lab.json", []lane{{name: "one", lab: true, jobs: []job{shell("a", start+"exit 0")}}}, false,
			[]string{"1 passed, 1 failed", "FAILED: lab one", "lab down leaves lab.json"}},
		{"a lane that gives way", "lock", []lane{{yield: true, jobs: []job{shell("a", gives)}}, {jobs: []job{shell("b", "test $(nice) -eq "+here)}}}, true, []string{"2 passed"}},
		{"no lab was started", "x", []lane{{name: "one", lab: true, jobs: []job{shell("a", "exit 0")}}}, true, []string{"1 passed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var said strings.Builder
			r := testRunner(t, &said, tt.left)
			all := newTally(r.out)
			for _, one := range r.stage(t.Context(), tt.lanes) {
				all.add(one)
			}
			if ok := all.report(time.Minute); ok != tt.ok {
				t.Errorf("ok = %v, want %v", ok, tt.ok)
			}
			says(t, &said, tt.want...)
		})
	}
}

// An interrupt reaches the processes of commands, ends the lane, and takes its
// lab down.
func TestInterrupt(t *testing.T) {
	t.Run("not giving way", func(t *testing.T) { testInterrupt(t, false) })
	t.Run("giving way", func(t *testing.T) { testInterrupt(t, true) })
}

func testInterrupt(t *testing.T, gives bool) {
	var said strings.Builder
	r := testRunner(t, &said, "lock")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	marks := t.TempDir()
	began := filepath.Join(marks, "began")
	go func() {
		for { // until the shell has started to wait
			if _, err := os.Stat(began); err == nil {
				cancel()
				return
			}
			time.Sleep(5 * time.Millisecond)
		}
	}()
	r.lane(ctx, lane{name: "one", lab: true, yield: gives, jobs: []job{
		shell("a", "mkdir -p $MESHTRIAL_TEST_LAB; trap 'touch "+marks+"/interrupted; exit 1' INT; touch "+began+"; while :; do sleep 0.05; done"),
		shell("b", "touch "+marks+"/next"),
	}}, newTally(r.out))
	if _, err := os.Stat(filepath.Join(marks, "interrupted")); err != nil {
		t.Error("the command was not interrupted")
	}
	if _, err := os.Stat(filepath.Join(marks, "next")); err == nil {
		t.Error("the lane went on")
	}
	if text, err := os.ReadFile(r.program + ".said"); err != nil || string(text) != "lab down\n" {
		t.Errorf("the lab was not taken down: %q, %v", text, err)
	}
}
