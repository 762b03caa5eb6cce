package storetest

import "slices"

// cases is the contract, theme by theme.
func cases() []testcase {
	return slices.Concat(
		commitCases(),
		inputCases(),
		readCases(),
		pageCases(),
		countCases(),
		watchCases(),
		flowCases(),
		endCases(),
		ruleCases(),
		durableCases(),
		linearCases(),
	)
}
