package child

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"

	"github.com/meshtrial/meshtrial/drive/load"
)

// Generator is the argument with which a bench runs a load generator, in a separate
// process as in a pod: its loops leave little to other work in the process.
const Generator = "generator"

// Generate has such a process of program execute a specification, and returns its output.
// program is the bench's own, or another build of it.
func Generate(ctx context.Context, program string, spec load.Spec) ([]byte, error) {
	data, err := json.Marshal(spec)
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, program, Generator)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	cmd.Stdin, cmd.Stderr = bytes.NewReader(data), os.Stderr
	text, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", program, Generator, err)
	}
	return text, nil
}

// ReadSpec reads the specification sent by [Generate].
func ReadSpec(in io.Reader) (load.Spec, error) {
	data, err := io.ReadAll(in)
	if err != nil {
		return load.Spec{}, err
	}
	return load.ParseSpec(data)
}
