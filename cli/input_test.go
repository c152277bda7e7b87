package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/meshtrial/meshtrial/internal/errs"
	"github.com/meshtrial/meshtrial/testing/must"
)

// A pipe without a writer ends at once, a silent pipe ends with the context, and a pipe with data
// is read.
func TestPipesAsInput(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	must.OK(t, syscall.Mkfifo(path, 0o600))
	if data, err := readInput(t.Context(), path, 100); err != nil || len(data) != 0 {
		t.Errorf("nobody writes: %q, %v", data, err)
	}
	writer, err := os.OpenFile(path, os.O_RDWR, 0)
	must.OK(t, err)
	defer writer.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := readInput(ctx, path, 100); !errors.Is(err, context.DeadlineExceeded) || time.Since(begin) > 30*time.Second {
		t.Errorf("silent: %v after %v", err, time.Since(begin))
	}
	if _, _, err := loadStudy(ctx, &Env{}, path, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a study of a silent pipe: %v", err)
	}
	in, err := openInput(t.Context(), path)
	must.OK(t, err)
	must.OK(t, must.Err(writer.WriteString("secret")))
	data := make([]byte, 6)
	if _, err := io.ReadFull(in, data); err != nil || string(data) != "secret" {
		t.Errorf("%q, %v", data, err)
	}
	if err := in.Close(); err != nil {
		t.Error(err)
	}
}

func TestInputIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for size, ok := range map[int]bool{0: true, 100: true, 101: false} {
		must.OK(t, os.WriteFile(path, []byte(strings.Repeat("x", size)), 0o600))
		data, err := readInput(t.Context(), path, 100)
		if (err == nil) != ok || ok && len(data) != size || !ok && errs.Code(err) != errs.CodeUsage {
			t.Errorf("%d bytes: %d read, %v", size, len(data), err)
		}
	}
	for _, bad := range []string{t.TempDir(), path + "-missing", "/dev/zero"} {
		if _, err := readInput(t.Context(), bad, 100); errs.Code(err) != errs.CodeUsage {
			t.Errorf("%s: %v", bad, err)
		}
	}
}
