;;; edn-bridge-draft-tests.el --- Keys and commands of the draft  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-live-tests)

(defun edn-bridge-draft-tests-ops (sent)
  "Return the ops of SENT, frames last first, in their order.
What goes before every message is left out."
  (seq-difference (mapcar (lambda (frame) (plist-get frame :op))
                          (reverse sent))
                  '("register_tools" "context_update" "register_files")))

(defun edn-bridge-draft-tests-press (keys)
  "Call what KEYS are bound to in this chat."
  (let ((command (key-binding (kbd keys))))
    (ert-info (keys)
      (should (commandp command))
      (call-interactively command))))

;;;; RET

(ert-deftest edn-bridge-draft-return-breaks-the-line-by-default ()
  (edn-bridge-test-with-chat (_conn sent)
    (edn-bridge-transcript-set-draft "one")
    (edn-bridge-draft-tests-press "RET")
    (should (equal (edn-bridge-transcript-draft) "one\n"))
    (should-not sent)))

(ert-deftest edn-bridge-draft-return-sends-where-it-shall ()
  (edn-bridge-test-with-chat (_conn sent)
    (let ((edn-bridge-input-return-sends t))
      (edn-bridge-transcript-set-draft "one")
      (dolist (keys '("S-<return>" "C-j"))
        (edn-bridge-draft-tests-press keys))
      (should (equal (edn-bridge-transcript-draft) "one\n\n"))
      (insert "two")
      (edn-bridge-draft-tests-press "RET")
      (should (equal (edn-bridge-transcript-draft) ""))
      (should (equal (edn-bridge-draft-tests-ops sent) '("prompt"))))))

(ert-deftest edn-bridge-draft-return-breaks-the-line-in-open-code ()
  (pcase-dolist (`(,draft . ,open)
                 '(("```el" . t) ("```el\n(x)" . t) ("```el\n(x)\n```" . nil)
                   ("````\n```" . t) ("~~~\n```" . t) ("~~~\n~~~~" . nil)
                   ("  ```\nx" . t) ("    ```\nx" . nil) ("a ```" . nil)
                   ("```x```" . nil) ("```\n``` x" . t)))
    (edn-bridge-test-with-chat (_conn sent)
      (let ((edn-bridge-input-return-sends t))
        (edn-bridge-transcript-set-draft draft)
        (goto-char (point-max))
        (edn-bridge-draft-tests-press "RET")
        (ert-info (draft)
          (should (eq open (equal (edn-bridge-transcript-draft)
                                  (concat draft "\n"))))
          (should (eq open (null sent))))))))

(ert-deftest edn-bridge-draft-hint-names-the-option ()
  (edn-bridge-test-with-chat (_conn _sent)
    (edn-bridge--show-hint)
    (should (string-search "edn-bridge-input-return-sends"
                           (edn-bridge-transcript-footer)))
    (let ((edn-bridge-input-return-sends t))
      (edn-bridge--show-hint)
      (should (string-match-p "^RET sends" (edn-bridge-transcript-footer))))))

(ert-deftest edn-bridge-draft-key-that-resumes-says-what-sends ()
  (edn-bridge-test-with-chat (conn sent)
    (let ((said nil))
      (cl-letf (((symbol-function 'message)
                 (lambda (format &rest args)
                   (setq said (apply #'format-message format args)))))
        (pcase-dolist (`(,draft . ,text)
                       '(("" . "No message is queued")
                         ("text" . "No message is queued; C-c RET sends the draft")))
          (edn-bridge-transcript-set-draft draft)
          (edn-bridge-draft-tests-press "C-c C-c")
          (edn-bridge-test-answer conn sent "resume_queue" :resumed :false)
          (should (equal (substring-no-properties said) text)))))))

;;;; From other buffers

(ert-deftest edn-bridge-draft-is-sent-from-where-it-was-added ()
  (edn-bridge-test-with-chat (_conn sent)
    (let* ((chat (current-buffer))
           (edn-bridge-ask--chat-function (lambda () chat)))
      (save-window-excursion
        (with-temp-buffer
          (switch-to-buffer (current-buffer))
          (insert "one line\n")
          (let ((source (current-buffer)))
            (edn-bridge-add-region (point-min) (point-max))
            ;; Point is in the draft.
            (should (eq (window-buffer) chat))
            (with-current-buffer chat
              (should (edn-bridge-transcript-in-draft-p)))
            (switch-to-buffer source)
            (should (eq (key-binding (kbd "C-c RET"))
                        'edn-bridge-ask-send-added))
            (call-interactively (key-binding (kbd "C-c RET")))
            (should (equal (edn-bridge-draft-tests-ops sent) '("prompt")))
            (should-not (key-binding (kbd "C-c RET")))
            ;; What is sent in the chat needs no key here.
            (edn-bridge-add-region (point-min) (point-max))
            (with-current-buffer chat
              (edn-bridge-input-send))
            (with-current-buffer source
              (should-not (key-binding (kbd "C-c RET"))))))))))

;;;; The permission mode

(ert-deftest edn-bridge-draft-backtab-goes-through-the-modes ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-event conn "session/updated" :session-id "s1" :mode "ask"
                           :model-id "m")
    (goto-char (point-max))
    (dolist (mode '("accept-edits" "read-only" "ask"))
      (edn-bridge-draft-tests-press "<backtab>")
      ;; The header line says so before the bridge has answered.
      (should (string-match-p (regexp-quote mode) (edn-bridge-chat--header-line)))
      (should (equal (plist-get (car sent) :params) (list :mode mode))))
    (edn-bridge-test-event conn "session/updated" :session-id "s1" :mode "yolo")
    (edn-bridge-draft-tests-press "<backtab>")
    (should (equal (plist-get (car sent) :params) '(:mode "ask")))))

(ert-deftest edn-bridge-draft-refused-mode-is-taken-back ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-test-event conn "session/updated" :session-id "s1" :mode "ask")
    (goto-char (point-max))
    (edn-bridge-draft-tests-press "<backtab>")
    (edn-bridge-rpc--dispatch-frame
     conn (list :id (plist-get (car sent) :id) :kind :error :op "set_mode"
                :error-code "request/failed" :error-message "No."))
    (should (equal (edn-bridge-chat-get :mode) "ask"))))

(ert-deftest edn-bridge-draft-backtab-above-it-goes-to-the-button-before ()
  (edn-bridge-test-with-chat (_conn sent)
    (edn-bridge-chat-notice "Text" nil (list "One" #'ignore) (list "Two" #'ignore))
    (goto-char (point-min))
    (search-forward "[Two]")
    (edn-bridge-draft-tests-press "<backtab>")
    (should (looking-at-p "\\[Two"))
    (edn-bridge-draft-tests-press "<backtab>")
    (should (looking-at-p "\\[One"))
    (should-not sent)))

;;;; Slash commands and commands of the shell

(ert-deftest edn-bridge-draft-clear-is-new ()
  (edn-bridge-test-with-chat (_conn sent)
    (edn-bridge-transcript-set-draft "/clear")
    (edn-bridge-input-send)
    (should (equal (edn-bridge-draft-tests-ops sent) '("new_session")))
    (should (member "clear" (edn-bridge-complete--command-names)))
    (should (edn-bridge-complete--command-doc "clear"))))

(ert-deftest edn-bridge-draft-shell-output-goes-with-the-next-message ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-transcript-set-draft "!ls -l")
    (edn-bridge-input-send)
    (should (equal (plist-get (car sent) :params) '(:command "ls -l")))
    (should (string-search "Running: ls -l  (C-c C-k ends it)"
                           (edn-bridge-transcript-footer)))
    ;; One that has to wait stays the draft.
    (edn-bridge-transcript-set-draft "!date")
    (should-error (edn-bridge-input-send) :type 'user-error)
    (should (equal (edn-bridge-transcript-draft) "!date"))
    (edn-bridge-test-answer conn sent "bash" :output "a.txt\n" :exit-code 2)
    (should (string-match-p "^! ls -l  (exit 2)\na.txt$"
                            (edn-bridge-test-transcript)))
    (should (string-search "output of 1 command goes with the next message"
                           (edn-bridge-transcript-footer)))
    (edn-bridge-transcript-set-draft "What is that?")
    (edn-bridge-input-send)
    (should (equal (plist-get (plist-get (car sent) :params) :message)
                   "I ran this command (exit 2):\n```sh\nls -l\n```\nIts output:\n```\na.txt\n```\n\nWhat is that?"))
    (edn-bridge-transcript-set-draft "And more?")
    (edn-bridge-input-send)
    (should (equal (plist-get (plist-get (car sent) :params) :message)
                   "And more?"))))

(ert-deftest edn-bridge-draft-shell-output-after-two-marks-stays-here ()
  (edn-bridge-test-with-chat (conn sent)
    (edn-bridge-transcript-set-draft "!!ls")
    (edn-bridge-input-send)
    (edn-bridge-test-answer conn sent "bash" :output "a.txt\n" :exit-code 0)
    (should (string-match-p "^!! ls\na.txt$" (edn-bridge-test-transcript)))
    (edn-bridge-transcript-set-draft "What?")
    (edn-bridge-input-send)
    (should (equal (plist-get (plist-get (car sent) :params) :message) "What?"))))

(ert-deftest edn-bridge-draft-image-in-markdown-is-no-command ()
  (edn-bridge-test-with-chat (_conn sent)
    (dolist (text '("![a cat](cat.png)" "!" "!!" "Yes!ls" "!!! Beware"))
      (edn-bridge-transcript-set-draft text)
      (edn-bridge-input-send)
      (ert-info (text)
        (should (member (plist-get (car sent) :op) '("prompt" "steer")))))))

(ert-deftest edn-bridge-draft-shell-runs-in-the-folder-of-the-session ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (edn-bridge-transcript-set-draft "!pwd; echo \"$((6*7))\"")
    (edn-bridge-input-send)
    (edn-bridge-test-wait
     (string-match-p (concat (regexp-quote (directory-file-name
                                            (file-truename default-directory)))
                             "\n42$")
                     (edn-bridge-test-transcript)))
    ;; It is ended by the key that ends a turn.
    (edn-bridge-transcript-set-draft "!sleep 600")
    (edn-bridge-input-send)
    (edn-bridge-input-abort)
    (edn-bridge-test-wait
     (string-match-p "^! sleep 600  (cancelled)$" (edn-bridge-test-transcript)))))

;;;; Keeping

(ert-deftest edn-bridge-draft-is-kept-soon-after-a-change ()
  (let* ((folder (make-temp-file "edn-drafts" t))
         (edn-bridge-drafts-file (expand-file-name "drafts.eld" folder))
         (edn-bridge-drafts--seconds 0.01))
    (unwind-protect
        (edn-bridge-test-with-chat (conn _sent)
          (edn-bridge-transcript-set-draft "half a thought")
          (edn-bridge-test-wait (equal (edn-bridge-drafts--read)
                                       '(("s1" . "half a thought"))))
          (should (= (file-modes edn-bridge-drafts-file) #o600))
          (should (equal (directory-files folder nil "drafts") '("drafts.eld")))
          ;; What streams in above it is no change of it.
          (edn-bridge-test-event conn "assistant/delta" :session-id "s1"
                                 :text "Hello")
          (edn-bridge-chat-set-status 'test '("A line"))
          (should-not edn-bridge-drafts--timer)
          ;; Once it is sent, it is not kept.
          (edn-bridge-input-send)
          (edn-bridge-test-wait (not (file-exists-p edn-bridge-drafts-file))))
      (delete-directory folder t))))

(ert-deftest edn-bridge-draft-survives-a-killed-emacs ()
  (let* ((folder (make-temp-file "edn-drafts" t))
         (file (expand-file-name "drafts.eld" folder)))
    (unwind-protect
        (progn
          (call-process
           (expand-file-name invocation-name invocation-directory) nil nil nil
           "-Q" "--batch" "-L" (expand-file-name ".." edn-bridge-test-directory)
           "-l" "edn-bridge" "--eval"
           (format "%S"
                   `(progn
                      (setq edn-bridge-drafts-file ,file
                            edn-bridge-drafts--seconds 0.05)
                      (edn-bridge-chat-mode)
                      (setq edn-bridge-chat--session-id "s9")
                      (insert "half a thought")
                      (while (not (file-exists-p ,file))
                        (accept-process-output nil 0.02))
                      (signal-process (emacs-pid) 9))))
          (let ((edn-bridge-drafts-file file))
            (should (equal (edn-bridge-drafts--read)
                           '(("s9" . "half a thought"))))))
      (delete-directory folder t))))

;;;; Settings of a project

(defun edn-bridge-draft-tests-settings (text &optional agree)
  "Return the arguments in a folder whose .dir-locals.el has TEXT, and questions.
With AGREE non-nil the user agrees to what is asked."
  (let ((folder (file-name-as-directory (make-temp-file "edn-settings" t)))
        (asked nil))
    (unwind-protect
        (with-temp-buffer
          (write-region text nil (expand-file-name ".dir-locals.el" folder)
                        nil 'quiet)
          (setq default-directory folder)
          (edn-bridge-chat-mode)
          (cl-letf (((symbol-function 'hack-local-variables-confirm)
                     (lambda (_all unsafe &rest _)
                       (setq asked (mapcar #'car unsafe))
                       agree)))
            (edn-bridge-settings-read))
          (remove-hook 'kill-buffer-hook #'edn-bridge-chat--on-kill t)
          (list (edn-bridge-settings-arguments) asked
                (local-variable-p 'fill-column)))
      (delete-directory folder t))))

(ert-deftest edn-bridge-draft-project-sets-model-and-mode ()
  (should (equal (edn-bridge-draft-tests-settings
                  "((nil . ((edn-bridge-settings-provider . \"openai\")
                             (edn-bridge-settings-model . \"gpt-x\")
                             (edn-bridge-settings-mode . \"read-only\")
                             (eval . (error \"evaluated\"))
                             (fill-column . 7))))")
                 '(("--provider" "openai" "--model" "gpt-x"
                    "--mode" "read-only")
                   nil nil))))

(ert-deftest edn-bridge-draft-project-loosens-nothing-unasked ()
  (dolist (pair '((edn-bridge-settings-mode . "yolo")
                  (edn-bridge-settings-mode . "accept-edits")
                  (edn-bridge-settings-agent . "claude")
                  (edn-bridge-settings-model . "--yolo")))
    (let ((text (format "((edn-bridge-chat-mode . (%S)))" pair)))
      (ert-info (text)
        (should (equal (edn-bridge-draft-tests-settings text)
                       (list nil (list (car pair)) nil)))))
    (unless (string-prefix-p "-" (cdr pair))
      (should (equal (cdr pair)
                     (cadr (car (edn-bridge-draft-tests-settings
                                 (format "((nil . (%S)))" pair) t))))))))

(ert-deftest edn-bridge-draft-project-settings-reach-the-program ()
  (edn-bridge-live-tests-with-program "hello.edn"
    (write-region "((nil . ((edn-bridge-settings-mode . \"read-only\"))))" nil
                  (expand-file-name ".dir-locals.el") nil 'quiet)
    (with-current-buffer (edn-bridge-chat-buffer)
      (edn-bridge-live-tests-wait-ready)
      (edn-bridge-test-wait (equal (edn-bridge-chat-get :mode) "read-only")))))

;;;; Keys from auth-source

(defmacro edn-bridge-draft-tests-with-key (&rest body)
  "Run BODY where auth-source has the key of a provider, in a file."
  (declare (indent 0) (debug t))
  `(let* ((file (make-temp-file "edn-authinfo"))
          (auth-sources (list file))
          (auth-source-do-cache nil))
     (unwind-protect
         (progn
           (write-region "machine api.anthropic.com login apikey password the-key\n"
                         nil file nil 'quiet)
           (auth-source-forget-all-cached)
           ,@body)
       (auth-source-forget-all-cached)
       (delete-file file))))

(ert-deftest edn-bridge-draft-missing-key-is-offered-from-auth-source ()
  (edn-bridge-draft-tests-with-key
    (edn-bridge-test-with-chat (conn _sent)
      (cl-flet ((fail (provider variable)
                  (edn-bridge-test-event
                   conn "assistant/message" :session-id "s1"
                   :error-message
                   (format "There is no key for %s. Set %s, or log in."
                           provider variable))
                  (accept-process-output nil 0.1)))
        (fail "openai" "OPENAI_API_KEY")
        (should-not (string-search "auth-source" (edn-bridge-test-transcript)))
        (fail "anthropic" "ANTHROPIC_API_KEY")
        (edn-bridge-test-wait
         (string-search "auth-source has a key of anthropic"
                        (edn-bridge-test-transcript)))
        (should-not (string-search "the-key" (buffer-string)))
        (let ((edn-bridge-program "/no/such/program"))
          (edn-bridge-test-push "Use it"))
        (should (equal edn-bridge-chat-environment
                       '(("ANTHROPIC_API_KEY" . "the-key"))))))))

(ert-deftest edn-bridge-draft-without-a-model-says-what-to-do ()
  (edn-bridge-draft-tests-with-key
    (edn-bridge-test-with-chat (conn _sent)
      (cl-flet ((state (&rest more)
                  (apply #'edn-bridge-test-event conn "session/updated"
                         :session-id "s1" :is-streaming :false more)))
        (dotimes (_ 2)
          (state :model-id "" :header-model-label "no model yet"
                 :setup '(:needs :model :offers [:login :choose-model])))
        (should (string-search "· no model yet" (edn-bridge-chat--header-line)))
        (should (string-search "There is no model yet: /login"
                               (edn-bridge-transcript-footer)))
        ;; The key of any provider will do; it is offered once.
        (dotimes (_ 2)
          (run-hooks 'edn-bridge-chat-ready-hook))
        (edn-bridge-test-wait
         (string-search "auth-source has a key of anthropic"
                        (edn-bridge-test-transcript)))
        (accept-process-output nil 0.1)
        (should (= 2 (length (split-string (edn-bridge-test-transcript)
                                           "auth-source has"))))
        (let ((edn-bridge-program "/no/such/program"))
          (edn-bridge-test-push "Use it"))
        (should (equal edn-bridge-chat-environment
                       '(("ANTHROPIC_API_KEY" . "the-key"))))
        (state :model-id "m-1")
        (should-not (string-search "no model" (edn-bridge-transcript-footer)))))))

(ert-deftest edn-bridge-draft-live-key-reaches-the-program-alone ()
  (edn-bridge-live-tests-with-program "hello.edn"
    (edn-bridge-draft-tests-with-key
      (let ((process-environment
             (cons "ANTHROPIC_API_KEY" process-environment))
            (edn-bridge-program-args
             (list "--state-dir" edn-bridge-live-tests-state
                   "--provider" "anthropic" "--model" "claude-sonnet-4-5")))
        (with-current-buffer (edn-bridge-chat-buffer)
          (edn-bridge-live-tests-wait-ready)
          (edn-bridge-transcript-set-draft "Hello")
          (edn-bridge-input-send)
          (edn-bridge-test-wait (string-search "[Use it" (buffer-string)))
          (edn-bridge-test-push "Use it")
          (edn-bridge-live-tests-wait-ready)
          ;; The program has the key now: the model is usable.
          (let ((data (edn-bridge-rpc-call edn-bridge-chat--conn
                                           "get_available_models" nil)))
            (should (seq-some
                     (lambda (model)
                       (and (equal (edn-bridge-chat-word
                                    (plist-get model :provider))
                                   "anthropic")
                            (edn-bridge-edn-true-p (plist-get model :usable))))
                     (plist-get data :models))))
          (should-not (getenv "ANTHROPIC_API_KEY"))
          ;; No file has it.
          (should-not (edn-bridge-live-tests-holds
                       "the-key" edn-bridge-live-tests-state)))))))

;;;; Completion

(defun edn-bridge-draft-tests-complete (text)
  "Return what completion at point says of TEXT as the draft, and its table."
  (edn-bridge-transcript-set-draft text)
  (goto-char (point-max))
  (edn-bridge-complete-at-point))

(ert-deftest edn-bridge-draft-completion-opens-at-once ()
  (edn-bridge-test-with-chat (_conn _sent)
    (cl-letf (((symbol-function 'edn-bridge-buffers-list-files)
               (lambda (_seconds) '("z.txt" "a.txt" "z.txt"))))
      (dolist (text '("/" "/mode " "@" "see @"))
        (ert-info (text)
          (should (eq t (plist-get (nthcdr 3 (edn-bridge-draft-tests-complete text))
                                   :company-prefix-length)))))
      ;; A slash command is nobody else's; an @ may be.
      (should-not (plist-member (nthcdr 3 (edn-bridge-draft-tests-complete "/mo"))
                                :exclusive))
      (should (eq 'no (plist-get (nthcdr 3 (edn-bridge-draft-tests-complete "@a"))
                                 :exclusive)))
      (should-not (edn-bridge-draft-tests-complete "/usr/lib")))))

(ert-deftest edn-bridge-draft-completion-has-each-entry-once-in-order ()
  (edn-bridge-test-with-chat (_conn _sent)
    (setq edn-bridge-complete--commands '((:name "zeta") (:name "help")))
    (cl-letf (((symbol-function 'edn-bridge-buffers-list-files)
               (lambda (_seconds) '("z.txt" "a.txt" "z.txt"))))
      (pcase-dolist (`(,text . ,first) '(("/" . ("zeta" "help"))
                                         ("@" . ("z.txt" "a.txt"))))
        (let* ((table (nth 2 (edn-bridge-draft-tests-complete text)))
               (all (all-completions "" table)))
          (ert-info (text)
            (should (equal (seq-take all 2) first))
            (should (equal all (seq-uniq all)))
            (should (eq 'identity
                        (completion-metadata-get
                         (completion-metadata "" table nil)
                         'display-sort-function)))))))))

(provide 'edn-bridge-draft-tests)

;;; edn-bridge-draft-tests.el ends here
