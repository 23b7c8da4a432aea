"""Several machines on one screen, over a real sshd on the loopback of this one."""
