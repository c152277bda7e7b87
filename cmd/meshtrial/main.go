// Meshtrial is a performance lab for service meshes. See README.md.
package main

import (
	"os"

	"github.com/meshtrial/meshtrial/cli"
)

func main() {
	os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}
