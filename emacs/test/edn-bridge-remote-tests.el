;;; edn-bridge-remote-tests.el --- Tests of remote folders  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Commentary:

;; The program in a folder of another host: over a real ssh, to a server of
;; its own on loopback with keys of its own.  Skipped where there is no
;; server to start, or no program.

;;; Code:

(require 'tramp)
(require 'edn-bridge-test-support)
(require 'edn-bridge-live-tests)

(defun edn-bridge-remote-tests-sshd ()
  "Return the file of the ssh server of this machine, or nil."
  (let ((exec-path (append exec-path '("/usr/sbin" "/usr/local/sbin"))))
    (executable-find "sshd")))

(defun edn-bridge-remote-tests-port ()
  "Return a port of loopback that is free."
  (let ((server (make-network-process :name "port" :server t :service t
                                      :host 'local :family 'ipv4)))
    (prog1 (process-contact server :service)
      (delete-process server))))

(defun edn-bridge-remote-tests-files (folder port)
  "Write keys and configurations for a server on PORT into FOLDER."
  (dolist (key '("host" "user"))
    (should (zerop (call-process "ssh-keygen" nil nil nil "-q" "-t" "ed25519"
                                 "-N" "" "-f" (expand-file-name key folder)))))
  (let ((name (lambda (file) (expand-file-name file folder))))
    (write-region
     (format "ListenAddress 127.0.0.1:%d
HostKey %s
AuthorizedKeysFile %s
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
PermitRootLogin yes
AllowAgentForwarding no
AllowTcpForwarding no
"
             port (funcall name "host") (funcall name "user.pub"))
     nil (funcall name "sshd_config") nil 'quiet)
    (write-region
     (format "Host edn-bridge-host
HostName 127.0.0.1
Port %d
IdentityFile %s
IdentitiesOnly yes
IdentityAgent none
StrictHostKeyChecking no
UserKnownHostsFile %s
LogLevel ERROR
"
             port (funcall name "user") (funcall name "known_hosts"))
     nil (funcall name "ssh_config") nil 'quiet)
    ;; What Tramp calls as it is; the user's own configuration is not read.
    (write-region (format "#!/bin/sh\nexec %s -F %s \"$@\"\n"
                          (executable-find "ssh") (funcall name "ssh_config"))
                  nil (funcall name "ssh") nil 'quiet)
    (set-file-modes (funcall name "ssh") #o755)))

(defun edn-bridge-remote-tests-listens-p (port)
  "Return non-nil if something listens on PORT of loopback."
  (ignore-errors
    (delete-process (make-network-process :name "try" :host "127.0.0.1"
                                          :service port))
    t))

(defmacro edn-bridge-remote-tests-with-host (&rest body)
  "Run BODY where `default-directory' is remote, with the real program.
The program is not there on this machine, as far as Emacs can see."
  (declare (indent 0) (debug t))
  `(edn-bridge-live-tests-with-program "hello.edn"
     (skip-unless (and (edn-bridge-remote-tests-sshd)
                       (executable-find "ssh")
                       (executable-find "ssh-keygen")
                       (or (not (zerop (user-uid)))
                           (progn (make-directory "/run/sshd" t) t))))
     (let* ((place (file-name-as-directory (make-temp-file "edn-bridge-ssh" t)))
            (port (edn-bridge-remote-tests-port))
            (exec-path (cons place exec-path))
            (process-environment
             (cons (concat "PATH=" place ":" (getenv "PATH"))
                   process-environment))
            (tramp-persistency-file-name nil)
            (tramp-verbose 1)
            (remote-file-name-inhibit-cache nil)
            (inhibit-message t)
            (default-directory (concat "/ssh:edn-bridge-host:" default-directory))
            (edn-bridge-remote-tests-program edn-bridge-program)
            (file-name-handler-alist
             (cons (cons (concat "\\`" (regexp-quote edn-bridge-program) "\\'")
                         #'edn-bridge-remote-tests-nothing)
                   file-name-handler-alist))
            (server nil))
       (unwind-protect
           (progn
             (edn-bridge-remote-tests-files place port)
             (setq server
                   (let ((default-directory place))
                     (start-process "sshd" nil (edn-bridge-remote-tests-sshd)
                                    "-D" "-f"
                                    (expand-file-name "sshd_config" place))))
             (set-process-query-on-exit-flag server nil)
             (edn-bridge-test-wait (edn-bridge-remote-tests-listens-p port))
             ,@body)
         (dolist (buffer (edn-bridge-chat-buffers))
           (kill-buffer buffer))
         ;; On the host the program is not told to do without one.
         (let ((default-directory place))
           (call-process edn-bridge-live-tests-program nil nil nil
                         "--state-dir" edn-bridge-live-tests-state
                         "daemon" "stop" "--now"))
         (tramp-cleanup-all-connections)
         (when server
           (delete-process server))
         (delete-directory place t)))))

(defun edn-bridge-remote-tests-nothing (operation &rest args)
  "Do OPERATION with ARGS, a file's name first, as if there was no such file."
  (if (memq operation '(file-exists-p file-executable-p file-attributes
                                      file-readable-p file-regular-p))
      nil
    (let ((inhibit-file-name-handlers
           (cons #'edn-bridge-remote-tests-nothing
                 (and (eq inhibit-file-name-operation operation)
                      inhibit-file-name-handlers)))
          (inhibit-file-name-operation operation))
      (apply operation args))))

(defun edn-bridge-remote-tests-running ()
  "Return how many processes of the program play for the running test."
  (with-temp-buffer
    (let ((default-directory temporary-file-directory))
      (call-process "ps" nil t nil "-eo" "args"))
    (count-matches (concat "^" (regexp-quote edn-bridge-live-tests-program)
                           " serve .*"
                           (regexp-quote edn-bridge-live-tests-state))
                   (point-min) (point-max))))

(ert-deftest edn-bridge-remote-works-over-ssh ()
  (edn-bridge-remote-tests-with-host
    (with-current-buffer (edn-bridge-chat-buffer)
      (edn-bridge-live-tests-wait-ready)
      (edn-bridge-live-tests-say "Hi")
      (should (equal (edn-bridge-test-transcript) edn-bridge-live-tests-hello))
      ;; A pipe to the host: no shell that the command is typed into, and
      ;; no terminal, which would echo and cut long lines.
      (let ((command (string-join
                      (process-command (edn-bridge-rpc-connection-process
                                        edn-bridge-chat--conn))
                      " ")))
        (should (string-search
                 (concat "/" (file-name-nondirectory edn-bridge-program))
                 command))
        (should-not (member "-t" (split-string command))))
      (edn-bridge-transcript-set-draft "draft")
      (should (= 1 (edn-bridge-remote-tests-running)))
      ;; Whoever reconnects leaves no process behind.
      (dotimes (_ 2)
        (edn-bridge-chat-reconnect)
        (edn-bridge-live-tests-wait-ready))
      (should (equal (edn-bridge-test-transcript) edn-bridge-live-tests-hello))
      (should (equal (edn-bridge-transcript-draft) "draft"))
      (edn-bridge-test-wait (= 1 (edn-bridge-remote-tests-running)))
      (kill-buffer))
    (with-temp-buffer
      (edn-bridge-test-wait (zerop (edn-bridge-remote-tests-running))))))

(defun edn-bridge-remote-tests-below (pid)
  "Return the processes that PID has started."
  (with-temp-buffer
    (let ((default-directory temporary-file-directory))
      (call-process "ps" nil t nil "-o" "pid=" "--ppid"
                    (number-to-string pid)))
    (mapcar #'string-to-number (split-string (buffer-string)))))

(defun edn-bridge-remote-tests-cut (server)
  "Cut every line to SERVER, which goes on listening."
  (let* ((lines (edn-bridge-remote-tests-below (process-id server)))
         (inner (mapcan #'edn-bridge-remote-tests-below lines)))
    (should lines)
    (dolist (pid lines)
      (signal-process pid 'SIGKILL))
    ;; The part without privileges, where there is one.
    (dolist (pid inner)
      (when (equal (alist-get 'comm (let ((default-directory
                                           temporary-file-directory))
                                      (process-attributes pid)))
                   "sshd")
        (signal-process pid 'SIGKILL)))))

(ert-deftest edn-bridge-remote-lost-line-is-had-again ()
  (edn-bridge-remote-tests-with-host
    (with-current-buffer (edn-bridge-chat-buffer)
      (edn-bridge-live-tests-wait-ready)
      (edn-bridge-live-tests-say "Hi")
      (should edn-bridge-chat--outlives)
      (edn-bridge-transcript-set-draft "draft")
      (let* ((before edn-bridge-chat--conn)
             (process (edn-bridge-rpc-connection-process before)))
        (edn-bridge-remote-tests-cut server)
        (edn-bridge-test-wait (not (eq before edn-bridge-chat--conn)))
        (should (equal (list (process-status process)
                             (process-exit-status process))
                       '(exit 255)))
        (edn-bridge-live-tests-wait-ready)
        (should-not edn-bridge-chat--line-tried)
        (should (equal (edn-bridge-test-transcript)
                       edn-bridge-live-tests-hello))
        (should (equal (edn-bridge-transcript-draft) "draft")))
      (kill-buffer))))

(provide 'edn-bridge-remote-tests)

;;; edn-bridge-remote-tests.el ends here
