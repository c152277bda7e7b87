// Package pipelines has only tests: of the GitHub Action, the GitLab template and the Helm
// chart at the top of the repository.
package pipelines
