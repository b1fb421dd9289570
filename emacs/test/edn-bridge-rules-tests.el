;;; edn-bridge-rules-tests.el --- Tests of rules, audit and the tree  -*- lexical-binding: t; no-byte-compile: t; -*-

;; SPDX-License-Identifier: MIT OR Apache-2.0

;;; Code:

(require 'edn-bridge-test-support)
(require 'edn-bridge-live-tests)

(defconst edn-bridge-rules-tests-rules
  [(:rule-id "r-1" :text "deny bash: rm" :source "configuration"
    :removable :false :in-force t)
   (:rule-id "r-2" :text "allow bash: git status" :source "kept"
    :removable t :in-force t)
   (:rule-id "r-3" :text "allow a\u202Eb" :source "session"
    :removable t :in-force :false :reason "it is too wide")]
  "Rules as the bridge lists them.")

(ert-deftest edn-bridge-rules-are-shown-and-taken-back ()
  (edn-bridge-test-with-chat (conn sent)
    (save-window-excursion
      (insert "/rules")
      (edn-bridge-input-send)
      (edn-bridge-test-answer conn sent "list_rules"
                              :rules edn-bridge-rules-tests-rules)
      (with-current-buffer "*edn-bridge: test rules*"
        (should (equal (buffer-string)
                       (concat "deny bash: rm  from the configuration\n"
                               "allow bash: git status  for this folder\n"
                               "allow a\\u{202E}b  for this session"
                               "  does not hold: it is too wide\n")))
        (should (eq (key-binding "d") #'edn-bridge-rules-remove))
        (goto-char (point-min))
        ;; That is for the file to say.
        (should-error (edn-bridge-rules-remove) :type 'user-error)
        (forward-line)
        (cl-letf (((symbol-function 'yes-or-no-p) (lambda (_) t)))
          (edn-bridge-rules-remove))
        (should (equal (plist-get (car sent) :params) '(:rule-id "r-2")))
        (edn-bridge-test-answer conn sent "remove_rule" :removed t)
        (should (equal (plist-get (car sent) :op) "list_rules"))
        (kill-buffer)))))

(ert-deftest edn-bridge-audit-shows-records-page-by-page ()
  (edn-bridge-test-with-chat (conn sent)
    (save-window-excursion
      (edn-bridge-audit)
      (should (equal (plist-get (car sent) :params) '(:scope "session")))
      (edn-bridge-test-answer
       conn sent "list_audit" :next 7
       :records [(:record "approval" :tool "bash" :outcome "deny"
                  :request "rm a\u202Eb" :edited :false
                  :transport "stdio")])
      (with-current-buffer "*edn-bridge: test audit*"
        (should (string-search "approval bash  rm a\\u{202E}b  deny\n    transport stdio\n[Older ones]"
                               (buffer-string)))
        (edn-bridge-test-push "Older ones")
        (should (equal (plist-get (car sent) :params)
                       '(:scope "session" :before 7)))
        (edn-bridge-test-answer conn sent "list_audit"
                                :records [(:record "older" :outcome "approve")])
        (should (string-search "older  approve\n" (buffer-string)))
        (should-not (string-search "Older ones" (buffer-string)))
        (edn-bridge-audit-toggle-scope)
        (should (equal (plist-get (car sent) :params) '(:scope "all")))
        (kill-buffer)))))

(ert-deftest edn-bridge-sessions-are-chosen-to-be-deleted ()
  (edn-bridge-test-with-chat (conn sent)
    (cl-letf (((symbol-function 'edn-bridge-rpc-call)
               (lambda (_conn op params)
                 (should (equal op "list_sessions"))
                 (should (equal params '(:scope "project" :archived? t)))
                 '(:sessions [(:id "s1" :name "mine") (:id "s2" :name "other")])))
              ((symbol-function 'completing-read) (lambda (&rest _) "other"))
              ((symbol-function 'yes-or-no-p) (lambda (_) t)))
      (call-interactively #'edn-bridge-sessions-delete)
      (should (equal (plist-get (car sent) :op) "delete_session"))
      (should (equal (plist-get (car sent) :params) '(:session-id "s2")))
      (call-interactively #'edn-bridge-sessions-archive)
      (should (equal (plist-get (car sent) :params)
                     '(:session-id "s2" :archived? t)))
      (edn-bridge-test-answer conn sent "archive_session" :archived t))))

(ert-deftest edn-bridge-sessions-are-taken-and-handed-over ()
  (edn-bridge-test-with-chat (conn sent)
    (let ((lost '(:id "s2" :name "other" :host "desk" :owner-lost t)))
      (cl-letf (((symbol-function 'edn-bridge-rpc-call)
                 (lambda (_conn op params)
                   (should (equal op "list_sessions"))
                   (should (equal params '(:scope "all")))
                   (list :sessions (vector '(:id "s1" :name "mine") lost))))
                ((symbol-function 'completing-read)
                 (lambda (&rest _) (edn-bridge-sessions-label lost)))
                ((symbol-function 'read-directory-name)
                 (lambda (&rest _) "/project/")))
        (call-interactively #'edn-bridge-sessions-take)
        (should (equal (plist-get (car sent) :op) "take_session"))
        (should (equal (plist-get (car sent) :params)
                       '(:session-id "s2" :cwd "/project"))))
      ;; Who only presses RET leaves the folder to the program.
      (dolist (answer '(("RET") ("/tmp RET" :cwd "/tmp")))
        (cl-letf (((symbol-function 'edn-bridge-sessions--choose-slot)
                   (lambda (&rest _) lost)))
          (let ((executing-kbd-macro t)
                (unread-command-events
                 (listify-key-sequence (kbd (car answer)))))
            (minibuffer-with-setup-hook
                (lambda () (should (equal (minibuffer-contents) "")))
              (call-interactively #'edn-bridge-sessions-take))))
        (should (equal (plist-get (car sent) :params)
                       (append '(:session-id "s2") (cdr answer))))))
    (edn-bridge-sessions-hand-over "desk")
    (should (equal (plist-get (car sent) :op) "hand_over_session"))
    (should (equal (plist-get (car sent) :params)
                   (list :session-id edn-bridge-chat--session-id :host "desk")))
    (edn-bridge-test-answer conn sent "hand_over_session")))

(ert-deftest edn-bridge-tree-deletes-archives-and-renames ()
  (edn-bridge-test-with-chat (conn sent)
    (save-window-excursion
      (edn-bridge-tree)
      (cl-flet ((list-them ()
                  (edn-bridge-test-answer
                   conn sent "list_sessions" :active-session-id "s1"
                   :sessions [(:id "s1" :name "mine")
                              (:id "s2" :name "other" :archived t)])))
        (list-them)
        (with-current-buffer "*edn-bridge: test sessions*"
          (goto-char (point-min))
          (search-forward "other")
          (should (looking-at-p ".*archived"))
          (edn-bridge-tree-archive)
          (should (equal (plist-get (car sent) :op) "archive_session"))
          (should (equal (plist-get (car sent) :params)
                         '(:session-id "s2" :archived? :false)))
          (edn-bridge-test-answer conn sent "archive_session" :archived :false)
          ;; It is listed again.
          (should (equal (plist-get (car sent) :op) "list_sessions"))
          (cl-letf (((symbol-function 'read-string) (lambda (&rest _) "new")))
            (edn-bridge-tree-rename))
          (should (equal (plist-get (car sent) :params)
                         '(:session-id "s2" :name "new")))
          (setq sent nil)
          (cl-letf (((symbol-function 'yes-or-no-p) #'ignore))
            (edn-bridge-tree-delete))
          (should-not sent)
          (cl-letf (((symbol-function 'yes-or-no-p) (lambda (_) t)))
            (edn-bridge-tree-delete)
            (should (equal (plist-get (car sent) :op) "delete_session"))
            (should (equal (plist-get (car sent) :params) '(:session-id "s2")))
            (goto-char (point-min))
            (search-forward "mine")
            (cl-letf (((symbol-function 'read-string) (lambda (&rest _) "ours")))
              (edn-bridge-tree-rename))
            (should (equal (plist-get (car sent) :op) "set_session_name"))
            (should (equal (plist-get (car sent) :params) '(:name "ours")))
            (edn-bridge-test-answer conn sent "set_session_name")
            (should (equal (plist-get (car sent) :op) "list_sessions"))
            (setq sent nil)
            (should-error (edn-bridge-tree-delete) :type 'user-error)
            (should-not sent))
          (edn-bridge-tree-toggle-archived)
          (should (equal (plist-get (car sent) :params)
                         '(:scope "project" :archived? t)))
          (kill-buffer))))))

;;;; With the program

(ert-deftest edn-bridge-tree-live-changes-any-session ()
  (edn-bridge-live-tests-with-chat "hello.edn"
    (edn-bridge-live-tests-say "Say hello.")
    (let ((first edn-bridge-chat--session-id))
      (edn-bridge-sessions-new)
      (edn-bridge-test-wait (not (equal first edn-bridge-chat--session-id)))
      (save-window-excursion
        (edn-bridge-tree)
        (with-current-buffer (window-buffer)
          (cl-flet ((on-first (command)
                              (edn-bridge-tree--go-to first)
                              (cl-letf (((symbol-function 'read-string)
                                         (lambda (&rest _) "Another name"))
                                        ((symbol-function 'yes-or-no-p)
                                         (lambda (_) t)))
                                (funcall command)))
                    (shows (text)
                           (string-search text (buffer-string))))
            (edn-bridge-test-wait (shows "Say hello."))
            (on-first #'edn-bridge-tree-rename)
            (edn-bridge-test-wait (shows "Another name"))
            (on-first #'edn-bridge-tree-archive)
            (edn-bridge-test-wait (not (shows "Another name")))
            (edn-bridge-tree-toggle-archived)
            (edn-bridge-test-wait (shows "Another name  archived"))
            (on-first #'edn-bridge-tree-archive)
            (edn-bridge-test-wait (and (shows "Another name")
                                       (not (shows "archived"))))
            (on-first #'edn-bridge-tree-delete)
            (edn-bridge-test-wait (not (shows "Another name"))))
          (kill-buffer)))
      (should-not (directory-files-recursively
                   edn-bridge-live-tests-state (regexp-quote first))))))

(ert-deftest edn-bridge-rules-live-allowed-always-is-taken-back ()
  (edn-bridge-live-tests-with-program "rules.edn"
    (with-current-buffer (edn-bridge-chat-buffer)
      (edn-bridge-live-tests-wait-ready)
      (insert "Go.")
      (edn-bridge-input-send)
      (edn-bridge-test-wait (string-search "Allow always" (buffer-string)))
      (edn-bridge-test-push "Allow always")
      (edn-bridge-test-wait (string-search "Done." (edn-bridge-test-transcript)))
      (save-window-excursion
        (let ((chat (current-buffer)))
          (edn-bridge-rules)
          (with-current-buffer (window-buffer)
            (edn-bridge-test-wait (string-search "for this folder" (buffer-string)))
            (goto-char (point-min))
            (cl-letf (((symbol-function 'yes-or-no-p) (lambda (_) t)))
              (edn-bridge-rules-remove))
            (edn-bridge-test-wait (string-search "No rule holds here"
                                                 (buffer-string)))
            (kill-buffer))
          (set-buffer chat)
          (edn-bridge-audit)
          (with-current-buffer (window-buffer)
            (edn-bridge-test-wait (string-match-p "bash  cargo test --all  approve"
                                                  (buffer-string)))
            (kill-buffer)))))))

(ert-deftest edn-bridge-trust-live-shows-what-runs ()
  (edn-bridge-live-tests-with-program "hello.edn"
    (make-directory ".edn-bridge")
    (with-temp-file ".edn-bridge/config.edn"
      (insert "{:hooks [{:id \"look\" :stage :tool-call :point :pre :kind :guard"
              " :command [\"./check.sh\"]}]}"))
    (with-temp-file "check.sh" (insert "exit 0\n"))
    (with-current-buffer (edn-bridge-chat-buffer)
      (edn-bridge-live-tests-wait-ready)
      (save-window-excursion
        (edn-bridge-trust)
        (edn-bridge-test-wait (get-buffer "*edn-bridge trust*"))
        (with-current-buffer "*edn-bridge trust*"
          (should (string-match-p "hook look (pre tool-call): .*check.sh"
                                  (buffer-string)))
          (edn-bridge-test-push "Trust this")))
      (edn-bridge-test-wait (string-search "This project is trusted."
                                           (edn-bridge-test-transcript))))))

(provide 'edn-bridge-rules-tests)

;;; edn-bridge-rules-tests.el ends here
