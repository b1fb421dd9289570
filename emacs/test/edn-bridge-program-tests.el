;;; edn-bridge-program-tests.el --- Tests of what finds the program  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'tramp)
(require 'edn-bridge-test-support)
(require 'edn-bridge-live-tests)

(defmacro edn-bridge-program-tests-with-folder (&rest body)
  "Run BODY in a new folder, where nothing of the program is installed."
  (declare (indent 0) (debug t))
  `(let* ((default-directory
           (file-name-as-directory (make-temp-file "edn-bridge" t)))
          (process-environment
           (append (list (concat "CARGO_HOME=" default-directory "cargo-home")
                         "CARGO_TARGET_DIR"
                         (concat "PATH=" default-directory "bin:"
                                 (getenv "PATH")))
                   process-environment))
          (exec-path (cons (concat default-directory "bin") exec-path))
          (edn-bridge-program "edn-bridge")
          (edn-bridge-program-source nil)
          (edn-bridge-program--package (concat default-directory "emacs/")))
     (unwind-protect
         (progn
           (mapc #'make-directory '("bin" "emacs" "cargo-home"
                                    "cargo-home/bin"))
           ,@body)
       (delete-directory default-directory t))))

(defun edn-bridge-program-tests-script (file &rest lines)
  "Write a shell script of LINES to FILE, and return its full name."
  (make-directory (or (file-name-directory file) default-directory) t)
  (write-region (concat "#!/bin/sh\n" (string-join lines "\n") "\n") nil file
                nil 'quiet)
  (set-file-modes file #o755)
  (expand-file-name file))

(ert-deftest edn-bridge-program-is-found-where-it-may-be ()
  (edn-bridge-program-tests-with-folder
    (skip-unless (not (executable-find "edn-bridge")))
    (should-not (edn-bridge-program-find))
    (should (equal (edn-bridge-program-command "serve")
                   '("edn-bridge" "serve")))
    (let ((cargo (edn-bridge-program-tests-script "cargo-home/bin/edn-bridge")))
      (should (equal (edn-bridge-program-find) cargo)))
    ;; A target folder without the project's source is none.
    (let ((built (edn-bridge-program-tests-script "target/release/edn-bridge")))
      (should-not (equal (edn-bridge-program-find) built))
      (write-region "" nil "Cargo.toml" nil 'quiet)
      (should (equal (edn-bridge-program-find) built))
      (delete-file built)
      ;; What `make run' builds first.
      (let ((quick (edn-bridge-program-tests-script
                    "target/quick/edn-bridge")))
        (should (equal (edn-bridge-program-find) quick))
        (edn-bridge-program-tests-script "target/release/edn-bridge")
        (should (equal (edn-bridge-program-find) built))))
    (let ((path (edn-bridge-program-tests-script "bin/edn-bridge")))
      (should (equal (edn-bridge-program-find) path)))
    ;; Who names a file means that one.
    (let ((edn-bridge-program (expand-file-name "mine/edn-bridge")))
      (should-not (edn-bridge-program-find))
      (edn-bridge-program-tests-script edn-bridge-program)
      (should (equal (edn-bridge-program-find) edn-bridge-program)))))

(defun edn-bridge-program-tests-build (source)
  "Build what is in SOURCE and return what the compilation buffer says."
  (let ((buffer (save-window-excursion (edn-bridge-build source))))
    (unwind-protect
        (with-current-buffer buffer
          (edn-bridge-test-wait (not (get-buffer-process buffer)))
          (buffer-string))
      (kill-buffer buffer))))

(ert-deftest edn-bridge-program-is-built ()
  (edn-bridge-program-tests-with-folder
    (skip-unless (not (executable-find "edn-bridge")))
    (should-error (edn-bridge-build default-directory) :type 'user-error)
    (write-region "" nil "Cargo.toml" nil 'quiet)
    (edn-bridge-program-tests-script
     "bin/cargo" "echo built with: \"$@\""
     "mkdir -p target/release" "echo '#!/bin/sh' > target/release/edn-bridge"
     "chmod +x target/release/edn-bridge")
    (let ((inhibit-message t))
      (should (string-match-p "built with: build --release --locked"
                              (edn-bridge-program-tests-build
                               default-directory))))
    (should (equal (edn-bridge-program-find)
                   (expand-file-name "target/release/edn-bridge")))
    ;; Where the package is not in the checkout, what was built is used too.
    (setq edn-bridge-program--package "/nowhere/")
    (should-not (edn-bridge-program-find))
    (let ((inhibit-message t))
      (edn-bridge-program-tests-build default-directory))
    (should (equal edn-bridge-program
                   (expand-file-name "target/release/edn-bridge")))))

(ert-deftest edn-bridge-program-says-when-it-cannot-be-built ()
  (edn-bridge-program-tests-with-folder
    (write-region "" nil "Cargo.toml" nil 'quiet)
    (let ((exec-path nil))
      (should (string-match-p
               "install Rust"
               (cadr (should-error (edn-bridge-build default-directory)
                                   :type 'user-error)))))))

(defun edn-bridge-program-tests-doctor ()
  "Return what the doctor says."
  (save-window-excursion (edn-bridge-doctor))
  (with-current-buffer "*edn-bridge doctor*"
    (prog1 (buffer-string)
      (kill-buffer))))

(ert-deftest edn-bridge-doctor-says-what-is-wrong-and-what-to-do ()
  (edn-bridge-program-tests-with-folder
    (let ((edn-bridge-program-args nil))
      (let ((edn-bridge-program "/no/such/edn-bridge"))
        (should (string-match-p
                 "FAIL.*/no/such/edn-bridge was not found.*M-x edn-bridge-build"
                 (edn-bridge-program-tests-doctor))))
      (let ((edn-bridge-program
             ;; Emacs in batch mode ends where it writes to nobody.
             (edn-bridge-program-tests-script
              "bad" "read line" "echo no library >&2" "exit 3")))
        (let ((text (edn-bridge-program-tests-doctor)))
          (should (string-match-p "ok.*The program is .*/bad" text))
          (should (string-match-p
                   "FAIL.*No handshake: the process ended with status 3\nno library"
                   text)))))))

(ert-deftest edn-bridge-doctor-says-whether-the-package-is-compiled ()
  (let ((edn-bridge-program "/no/such/edn-bridge"))
    (should-not (string-match-p "byte-compiled"
                                (edn-bridge-program-tests-doctor)))
    (cl-letf (((symbol-function 'edn-bridge-rpc-request) (lambda () nil)))
      (should (string-match-p "is not byte-compiled; (byte-recompile-directory"
                              (edn-bridge-program-tests-doctor))))))

(ert-deftest edn-bridge-doctor-is-content-with-the-program ()
  (edn-bridge-live-tests-with-program "hello.edn"
    (let ((text (edn-bridge-program-tests-doctor)))
      (should (string-match-p "ok.*Handshake in [0-9]+ ms: protocol 1" text))
      (should-not (string-match-p "No handshake" text)))))

;;;; Remote folders

(defconst edn-bridge-program-tests-method "telnet"
  "A method of Tramp, redefined so that its host is this one, in a shell.
Emacs 30 takes no name for remote that is not of a method it knows.")

(ert-deftest edn-bridge-program-runs-in-remote-folders ()
  (edn-bridge-live-tests-with-program "hello.edn"
    (let* ((tramp-methods
            (cons `(,edn-bridge-program-tests-method
                    (tramp-login-program "/bin/sh")
                    (tramp-login-args (("-i")))
                    (tramp-remote-shell "/bin/sh")
                    (tramp-remote-shell-args ("-c"))
                    (tramp-connection-timeout 10))
                  tramp-methods))
           (tramp-default-host-alist
            `((,edn-bridge-program-tests-method nil ,(system-name))
              ,@tramp-default-host-alist))
           (tramp-persistency-file-name nil)
           (tramp-verbose 0)
           (process-environment (cons "PS1=$ " process-environment))
           (prefix (format "/%s::" edn-bridge-program-tests-method))
           (default-directory (concat prefix default-directory)))
      (should (file-directory-p default-directory))
      (let ((edn-bridge-program "/no/such/program"))
        (should-not (edn-bridge-program-find))
        (should (string-match-p "was not found on /telnet:"
                                (edn-bridge-program-tests-doctor))))
      (unwind-protect
          (with-current-buffer (edn-bridge-chat-buffer)
            (should (file-remote-p default-directory))
            (edn-bridge-live-tests-wait-ready)
            (edn-bridge-live-tests-say "Hi")
            (should (equal (edn-bridge-test-transcript)
                           edn-bridge-live-tests-hello))
            ;; The bridge is told the folder as the host knows it.
            (should (equal (plist-get (edn-bridge-context) :cwd)
                           (file-local-name default-directory)))
            (should (string-match-p
                     (regexp-quote (directory-file-name
                                    (file-local-name default-directory)))
                     (car edn-bridge-chat--footer))))
        (let ((inhibit-message t))
          (tramp-cleanup-connection
           (tramp-dissect-file-name default-directory) nil t))))))

;;;; What the person looks at

(ert-deftest edn-bridge-context-is-told-before-something-is-sent ()
  (edn-bridge-test-with-chat (_conn sent)
    (let ((folder (file-name-as-directory (make-temp-file "edn-bridge" t)))
          (ops (lambda () (mapcar (lambda (frame) (plist-get frame :op)) sent)))
          ;; They are told by files of their own.
          (edn-bridge-files-share nil)
          (edn-bridge-buffers-revert nil)
          (edn-bridge-hands-tools nil))
      (setq default-directory folder)
      (unwind-protect
          (let ((chat (current-buffer))
                (file (expand-file-name "a.el" folder)))
            (write-region "one\n(two)\n" nil file nil 'quiet)
            (with-current-buffer (find-file-noselect file)
              (goto-char 5)
              (push-mark 10 t t)
              (setq transient-mark-mode t mark-active t))
            (with-current-buffer chat
              (edn-bridge-input-send-text "/help")
              (should (equal (funcall ops) '("command")))
              (edn-bridge-input-send-text "Hi")
              (should (equal (funcall ops) '("prompt" "context_update" "command")))
              (should (equal
                       (plist-get (nth 1 sent) :params)
                       (list :cwd folder :workspace-root folder
                             :active-file (list :path file
                                                :language-id "emacs-lisp")
                             :selection
                             (list :path file
                                   :range '(:start (:line 1 :column 0)
                                            :end (:line 1 :column 5))
                                   :selected-text "(two)"))))
              ;; What was told is not told again.
              (edn-bridge-input-send-text "Hi")
              (should (equal (car (cdr (funcall ops))) "prompt"))
              (with-current-buffer (get-file-buffer file)
                (setq mark-active nil))
              (let ((edn-bridge-context-share nil))
                (edn-bridge-input-send-text "Hi")
                (should-not (equal (nth 1 (funcall ops)) "context_update")))
              (edn-bridge-input-send-text "Hi")
              (should (equal (nth 1 (funcall ops)) "context_update"))
              (should-not (plist-get (plist-get (nth 1 sent) :params)
                                     :selection)))
            (with-current-buffer (get-file-buffer file)
              (set-buffer-modified-p nil)
              (kill-buffer)))
        (delete-directory folder t)))))

(ert-deftest edn-bridge-context-is-shown-above-the-draft ()
  (edn-bridge-test-with-chat (_conn _sent)
    (let* ((folder (file-name-as-directory (make-temp-file "edn-bridge" t)))
           (file (expand-file-name "a.txt" folder))
           (chat (current-buffer))
           (buffer nil))
      (setq default-directory folder)
      (write-region "one\ntwo\nthree\n" nil file nil 'quiet)
      (setq buffer (find-file-noselect file))
      (unwind-protect
          (cl-flet ((shown ()
                      (save-window-excursion
                        (set-window-buffer nil chat)
                        (run-hook-with-args 'window-selection-change-functions
                                            (selected-window)))
                      (edn-bridge-transcript-footer)))
            (should (string-match-p "^The agent gets a.txt  (C-c C-d: not)\n"
                                    (shown)))
            (let ((inhibit-message t))
              (edn-bridge-context-toggle)
              (should-not (string-search "told" (shown)))
              (edn-bridge-context-toggle))
            (with-current-buffer buffer
              (push-mark 1 t t)
              (goto-char 9)
              (setq transient-mark-mode t mark-active t))
            ;; The region ends where line 3 begins.
            (should (string-match-p
                     "^The agent gets a.txt, lines 1 to 2 with their text"
                     (shown)))
            (let ((edn-bridge-context-share nil))
              (should-not (string-match-p "told" (shown)))))
        (kill-buffer buffer)
        (delete-directory folder t)))))

(ert-deftest edn-bridge-context-asks-nothing-of-remote-hosts ()
  (with-temp-buffer
    (let ((default-directory temporary-file-directory)
          (asked nil))
      (setq buffer-file-name "/ssh:no.such.host:/x/a.c")
      (cl-letf (((symbol-function 'tramp-file-name-handler)
                 (lambda (operation &rest args)
                   (pcase operation
                     ('file-remote-p "/ssh:no.such.host:")
                     (_ (push (cons operation args) asked) nil)))))
        (should-not (eq (edn-bridge-context-buffer) (current-buffer)))
        (should-not asked))
      (set-buffer-modified-p nil)
      (setq buffer-file-name nil))))

(ert-deftest edn-bridge-context-is-taken-by-the-program ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (should (edn-bridge-edn-true-p
             (plist-get (edn-bridge-rpc-call
                         edn-bridge-chat--conn "context_update"
                         (append (edn-bridge-context)
                                 '(:active-file (:path "/x" :language-id "c")
                                   :selection
                                   (:path "/x"
                                    :range (:start (:line 1 :column 0)
                                            :end (:line 1 :column 5))
                                    :selected-text "x"))))
                        :accepted)))))

(provide 'edn-bridge-program-tests)

;;; edn-bridge-program-tests.el ends here
