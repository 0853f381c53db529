"""What tests share: assertions, the command line in process, starting nodes, the reference."""
