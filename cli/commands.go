package cli

import (
	"github.com/spf13/cobra"

	"github.com/meshtrial/meshtrial/lab/local"
)

// groups are the subcommands in the order in which people meet them, as
// `meshtrial --help` shows them. Those without a title are hidden.
var groups = []struct {
	title    string
	commands []func(*Env) *cobra.Command
}{
	{"Measure", []func(*Env) *cobra.Command{
		newRunCommand, newPageCommand, newAttachCommand, newRunsCommand, newStudyCommand, newReportCommand, newCompareCommand, newTrendCommand}},
	{"Understand and tune a mesh", []func(*Env) *cobra.Command{
		newAssessCommand, newProfileCommand,
		newControlPlaneTestCommand}},
	{"Where it runs", []func(*Env) *cobra.Command{
		newDoctorCommand, newLabCommand, newClusterCommand}},
	{"Parts of a study, each usable on its own", []func(*Env) *cobra.Command{
		newLoadCommand, newWorkerCommand, newXDSCommand, newObserveCommand, newFaultCommand}},
	{"", []func(*Env) *cobra.Command{
		newProfileRoleCommand, newKeeperCommand, newDetachedRunCommand, newDetachedResultsCommand,
		firstProcess("lab-init SPEC", "The first process of a local lab; started by lab up", local.Init),
		firstProcess("lab-node SPEC", "The first process of a node of a local lab; started by lab-init", local.InitNode)}},
}

// Cobra would sort commands by name.
func init() { cobra.EnableCommandSorting = false }

// addCommands adds every subcommand, below its group's title.
func addCommands(root *cobra.Command, env *Env) {
	for _, g := range groups {
		if g.title != "" {
			root.AddGroup(&cobra.Group{ID: g.title, Title: g.title + ":"})
		}
		for _, command := range g.commands {
			c := command(env)
			c.GroupID = g.title
			root.AddCommand(c)
		}
	}
}
