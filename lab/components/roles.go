package components

import (
	"debug/elf"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/meshtrial/meshtrial/internal/errs"
)

// rolesPlan is the image of the roles: meshtrial alone. It verifies nobody's
// certificates against a machine's authorities, so it carries none.
func rolesPlan(program string) (plan, error) {
	arch, err := checkStatic(program)
	if err != nil {
		return plan{}, err
	}
	_, sum, err := sumFile(program, false)
	if err != nil {
		return plan{}, err
	}
	file := content{Name: "usr/local/bin/meshtrial", Mode: 0o755, From: program, Sum: "sha256:" + sum}
	return plan{ref: RolesRef, arch: arch, layers: []*layer{baseLayer(), newLayer(file)},
		config: v1.Config{Entrypoint: []string{"/usr/local/bin/meshtrial"}, User: userRoles}}, nil
}

// RolesImage is the image of the roles for a registry: its layers are
// compressed. The program must be static; its architecture is the image's.
func RolesImage(program string) (v1.Image, error) {
	p, err := rolesPlan(program)
	if err != nil {
		return nil, err
	}
	return p.image((*layer).compressed)
}

// checkStatic refuses a program that its image, which has no libc, could not
// run. It returns the program's architecture.
func checkStatic(path string) (arch string, err error) {
	f, err := elf.Open(path)
	if err != nil {
		return "", errs.Usage("the program for the roles' image, %s: %v", path, err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return "", errs.WithHint(errs.Usage("the program for the roles' image, %s, is linked dynamically, and the image holds no libraries", path),
				"build it with CGO_ENABLED=0, as `make build` does")
		}
	}
	for arch, machine := range machines {
		if machine == f.Machine {
			return arch, nil
		}
	}
	return "", errs.Usage("the program for the roles' image, %s, is for an unsupported processor: %v", path, f.Machine)
}
