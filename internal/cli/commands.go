package cli

import "github.com/spf13/cobra"

// commands lists every subcommand, in the order of the documentation.
func commands(env *Env) []*cobra.Command {
	return []*cobra.Command{
		newDoctorCommand(env),
		newComponentsCommand(env),
		newLabCommand(env),
		newClusterCommand(env),
		newStudyCommand(env),
		newRunCommand(env),
		newReportCommand(env),
		newCompareCommand(env),
		newTrendCommand(env),
		newAdviseCommand(env),
		newCapacityCommand(env),
		newTuneCommand(env),
		newScopeCommand(env),
		newProfileCommand(env),
		newLoadCommand(env),
		newWorkerCommand(env),
		newXDSCommand(env),
		newObserveCommand(env),
		newFaultCommand(env),
		newProfileRoleCommand(env),
		newKeeperCommand(env),
		newSignalsCommand(env),
		newControlPlaneTestCommand(env),
		newLabInitCommand(env),
		newLabMemberCommand(),
	}
}
